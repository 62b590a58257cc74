import type { Models, VendorDescription } from './vendor-description.ts';

const models: Models = {
  'kimi-k2.6': { input: '0.95', cached_input: '0.16', output: '4', max_input_tokens: 262_144, takes_reasoning: 'text' },
};

export const moonshot: VendorDescription = {
  name: 'moonshot',
  title: 'Moonshot',
  documentation: 'https://platform.moonshot.ai/docs/api/chat',
  baseUrl: 'https://api.moonshot.ai/v1',
  dialect: 'chat',
  models,
  tableNames: ['moonshot'],
};
