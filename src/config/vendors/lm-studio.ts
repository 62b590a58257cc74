/**
 * LM Studio runs models on your own machines. The address doesn't reveal that it's LM Studio, so providers have to set
 * `vendor`.
 */
import type { VendorDescription } from './vendor-description.ts';

export const lmStudio: VendorDescription = {
  name: 'lm-studio',
  title: 'LM Studio',
  documentation: 'https://lmstudio.ai/docs/developer/openai-compat',
  hosts: [],
  baseUrl: 'http://127.0.0.1:1234/v1',
  dialect: 'chat',
  needsKey: false,
};
