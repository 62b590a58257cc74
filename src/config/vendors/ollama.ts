/**
 * Ollama runs models on your own machines. The address doesn't reveal that it's Ollama, so providers have to set
 * `vendor`.
 */
import type { VendorDescription } from './vendor-description.ts';

export const ollama: VendorDescription = {
  name: 'ollama',
  title: 'Ollama',
  documentation: 'https://docs.ollama.com/api/openai-compatibility',
  hosts: [],
  baseUrl: 'http://127.0.0.1:11434/v1',
  dialect: 'chat',
  needsKey: false,
};
