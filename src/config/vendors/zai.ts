import type { Models, VendorDescription } from './vendor-description.ts';

const limits = { max_input_tokens: 200_000, max_output_tokens: 128_000, takes_reasoning: 'text' } as const;

const models: Models = {
  'glm-5.1': { input: '1.40', cached_input: '0.26', output: '4.40', ...limits },
  'glm-4.7': { input: '0.60', cached_input: '0.11', output: '2.20', ...limits },
};

export const zai: VendorDescription = {
  name: 'zai',
  title: 'Z.ai',
  documentation: 'https://docs.z.ai/api-reference/introduction',
  baseUrl: 'https://api.z.ai/api/paas/v4',
  dialect: 'chat',
  models,
  tableNames: ['zai'],
};
