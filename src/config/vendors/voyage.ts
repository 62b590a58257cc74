import type { Models, VendorDescription } from './vendor-description.ts';

const models: Models = {
  'voyage-4': { kind: 'embeddings', input: '0.06', max_input_tokens: 32_000 },
  'voyage-3.5': { kind: 'embeddings', input: '0.06', max_input_tokens: 32_000 },
  'voyage-3.5-lite': { kind: 'embeddings', input: '0.02', max_input_tokens: 32_000 },
  'voyage-3-large': { kind: 'embeddings', input: '0.18', max_input_tokens: 32_000 },
  'voyage-code-3': { kind: 'embeddings', input: '0.18', max_input_tokens: 32_000 },
  'rerank-2.5': { kind: 'rerank', input: '0.05', max_input_tokens: 32_000 },
  'rerank-2.5-lite': { kind: 'rerank', input: '0.02', max_input_tokens: 32_000 },
};

export const voyage: VendorDescription = {
  name: 'voyage',
  title: 'Voyage',
  documentation: 'https://docs.voyageai.com/reference',
  baseUrl: 'https://api.voyageai.com/v1',
  dialect: 'chat',
  serves: ['embeddings', 'rerank'],
  models,
  tableNames: ['voyage'],
};
