import type { Models, VendorDescription } from './vendor-description.ts';

const grok4 = {
  ...{ input: '2', cached_input: '0.50', output: '6', max_input_tokens: 500_000 },
  above_tokens: { 200000: { input: '4', cached_input: '1', output: '12' } },
};

const toolPrices = {
  ...{ web_search: '0.005', x_search: '0.005', code_interpreter: '0.005', code_execution: '0.005' },
  ...{ file_search: '0.0025', collections_search: '0.0025' },
};

const models: Models = {
  'grok-4.6': grok4,
  'grok-4.5': grok4,
  'grok-4.3': {
    ...{ input: '1.25', cached_input: '0.20', output: '2.50', max_input_tokens: 1_000_000 },
    above_tokens: { 200000: { input: '2.50', cached_input: '0.40', output: '5' } },
  },
  'grok-build-0.1': {
    ...{ input: '1', cached_input: '0.20', output: '2', max_input_tokens: 256_000 },
    above_tokens: { 200000: { input: '2', cached_input: '0.40', output: '4' } },
  },
};

export const xai: VendorDescription = {
  name: 'xai',
  title: 'xAI',
  documentation: 'https://docs.x.ai/docs/api-reference',
  baseUrl: 'https://api.x.ai/v1',
  dialect: 'chat',
  models,
  toolPrices,
  tableNames: ['xai'],
};
