import type { Models, VendorDescription } from './vendor-description.ts';

const models: Models = {
  'gpt-oss-120b': { input: '0.35', output: '0.75', max_input_tokens: 131_072, max_output_tokens: 32_768 },
};

export const cerebras: VendorDescription = {
  name: 'cerebras',
  title: 'Cerebras',
  documentation: 'https://inference-docs.cerebras.ai/api-reference/chat-completions',
  baseUrl: 'https://api.cerebras.ai/v1',
  dialect: 'chat',
  models,
  tableNames: ['cerebras'],
};
