/**
 * Cohere. Its compatible API serves chat and embeddings. Rerank needs a separate provider, with the base URL
 * https://api.cohere.com/v1 and `serves: [rerank]`.
 */
import type { Models, VendorDescription } from './vendor-description.ts';

const models: Models = {
  'command-a-03-2025': { input: '2.50', output: '10', max_input_tokens: 256_000, max_output_tokens: 8_000 },
  'command-r-plus-08-2024': { input: '2.50', output: '10', max_input_tokens: 128_000, max_output_tokens: 4_096 },
  'command-r-08-2024': { input: '0.15', output: '0.60', max_input_tokens: 128_000, max_output_tokens: 4_096 },
  'command-r7b-12-2024': { input: '0.0375', output: '0.15', max_input_tokens: 128_000, max_output_tokens: 4_096 },
  'embed-v4.0': { kind: 'embeddings', input: '0.12', max_input_tokens: 128_000 },
  'embed-english-v3.0': { kind: 'embeddings', input: '0.10', max_input_tokens: 512 },
  'embed-multilingual-v3.0': { kind: 'embeddings', input: '0.10', max_input_tokens: 512 },
  'rerank-v4.0-pro': { per_search: '0.0025', max_input_tokens: 32_768 },
  'rerank-v4.0-fast': { per_search: '0.002', max_input_tokens: 32_768 },
  'rerank-v3.5': { per_search: '0.002', max_input_tokens: 4_096 },
};

export const cohere: VendorDescription = {
  name: 'cohere',
  title: 'Cohere',
  documentation: 'https://docs.cohere.com/docs/compatibility-api',
  hosts: ['api.cohere.com', 'api.cohere.ai'],
  baseUrl: 'https://api.cohere.ai/compatibility/v1',
  dialect: 'chat',
  responses: 'translated',
  models,
  tableNames: ['cohere', 'cohere_chat'],
};
