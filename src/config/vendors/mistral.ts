import type { Models, VendorDescription } from './vendor-description.ts';

const models: Models = {
  'mistral-large-2512': { input: '0.50', cached_input: '0.05', output: '1.50', max_input_tokens: 262_144, reasons: false },
  'mistral-medium-2604': { input: '1.50', cached_input: '0.15', output: '7.50', max_input_tokens: 262_144 },
  'mistral-small-2603': { input: '0.15', cached_input: '0.015', output: '0.60', max_input_tokens: 262_144 },
  'codestral-2508': { input: '0.30', cached_input: '0.03', output: '0.90', max_input_tokens: 128_000, reasons: false },
  'ministral-8b-2512': { input: '0.15', cached_input: '0.015', output: '0.15', max_input_tokens: 262_144, reasons: false },
  'mistral-embed': { kind: 'embeddings', input: '0.10', max_input_tokens: 8_192 },
  'codestral-embed': { kind: 'embeddings', input: '0.15', max_input_tokens: 8_192 },
  'voxtral-mini-latest': { kind: 'transcriptions', per_second: '0.00005' },
};

export const mistral: VendorDescription = {
  name: 'mistral',
  title: 'Mistral',
  documentation: 'https://docs.mistral.ai/api',
  hosts: ['api.mistral.ai', 'codestral.mistral.ai'],
  baseUrl: 'https://api.mistral.ai/v1',
  dialect: 'chat',
  responses: 'translated',
  models,
  tableNames: ['mistral', 'codestral'],
};
