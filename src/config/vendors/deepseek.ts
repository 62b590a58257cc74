import type { Models, VendorDescription } from './vendor-description.ts';

const limits = { max_input_tokens: 1_000_000, max_output_tokens: 384_000, takes_reasoning: 'text' } as const;
const flash = { input: '0.30', cached_input: '0.006', output: '1.20', ...limits };

/** DeepSeek's prices at peak hours. At other times, it charges half as much. */
const models: Models = {
  'deepseek-v4-pro': { input: '1.32', cached_input: '0.044', output: '3.96', ...limits },
  'deepseek-flash': flash,
  // the former name of deepseek-flash
  'deepseek-v4-flash': flash,
};

export const deepseek: VendorDescription = {
  name: 'deepseek',
  title: 'DeepSeek',
  documentation: 'https://api-docs.deepseek.com',
  baseUrl: 'https://api.deepseek.com/v1',
  dialect: 'chat',
  responses: 'translated',
  models,
  tableNames: ['deepseek'],
};
