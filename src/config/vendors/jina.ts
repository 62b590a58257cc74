import type { Models, VendorDescription } from './vendor-description.ts';

const models: Models = {
  'jina-reranker-v2-base-multilingual': { kind: 'rerank', input: '0.05', max_input_tokens: 1_024 },
};

export const jina: VendorDescription = {
  name: 'jina',
  title: 'Jina',
  documentation: 'https://jina.ai/reranker',
  baseUrl: 'https://api.jina.ai/v1',
  dialect: 'chat',
  serves: ['embeddings', 'rerank'],
  models,
  tableNames: ['jina_ai'],
};
