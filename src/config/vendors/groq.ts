import type { Models, VendorDescription } from './vendor-description.ts';

const models: Models = {
  'openai/gpt-oss-120b': { input: '0.15', cached_input: '0.075', output: '0.60', max_input_tokens: 131_072, max_output_tokens: 65_536 },
  'openai/gpt-oss-20b': { input: '0.075', cached_input: '0.0375', output: '0.30', max_input_tokens: 131_072, max_output_tokens: 65_536 },
  'qwen/qwen3.8-27b': { input: '0.80', output: '4', max_input_tokens: 131_072, max_output_tokens: 16_384 },
  'whisper-large-v3': { kind: 'transcriptions', per_second: '0.00003083' },
  'whisper-large-v3-turbo': { kind: 'transcriptions', per_second: '0.00001111' },
};

export const groq: VendorDescription = {
  name: 'groq',
  title: 'Groq',
  documentation: 'https://console.groq.com/docs/openai',
  baseUrl: 'https://api.groq.com/openai/v1',
  dialect: 'chat',
  models,
  tableNames: ['groq'],
};
