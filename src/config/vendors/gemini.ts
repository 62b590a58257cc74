/**
 * Google's Gemini API. Text and images use the `chat` dialect. Videos need a separate provider, with the `gemini`
 * dialect and a base URL that ends with /v1beta.
 */
import type { Models, VendorDescription } from './vendor-description.ts';

const limits = { max_input_tokens: 1_048_576, max_output_tokens: 65_536 };

const models: Models = {
  'gemini-3.8-flash': { input: '0.75', cached_input: '0.075', output: '3.75', ...limits },
  'gemini-3.7-flash': { input: '0.75', cached_input: '0.075', output: '3.75', ...limits },
  'gemini-3.5-flash': { input: '1.50', cached_input: '0.15', output: '9', ...limits },
  'gemini-3.5-flash-lite': { input: '0.30', cached_input: '0.03', output: '2.50', ...limits },
  'gemini-3.1-pro-preview': {
    ...{ input: '2', cached_input: '0.20', output: '12', ...limits },
    above_tokens: { 200000: { input: '4', cached_input: '0.40', output: '18' } },
  },
  'gemini-3.1-flash-lite': { input: '0.25', cached_input: '0.025', output: '1.50', ...limits },
  'gemini-3-flash-preview': { input: '0.50', cached_input: '0.05', output: '3', ...limits },
  'gemini-2.5-pro': {
    ...{ input: '1.25', cached_input: '0.125', output: '10', ...limits },
    above_tokens: { 200000: { input: '2.50', cached_input: '0.25', output: '15' } },
  },
  'gemini-2.5-flash': { input: '0.30', cached_input: '0.03', output: '2.50', ...limits },
  'gemini-2.5-flash-lite': { input: '0.10', cached_input: '0.01', output: '0.40', ...limits },
  'gemini-embedding-001': { kind: 'embeddings', input: '0.15', max_input_tokens: 2_048 },
  'gemini-embedding-2': { kind: 'embeddings', input: '0.20', max_input_tokens: 8_192 },
  'veo-3.1-generate-001': { per_second: '0.40' },
  'veo-3.1-fast-generate-001': { per_second: '0.10' },
};

export const gemini: VendorDescription = {
  name: 'gemini',
  title: 'Gemini API',
  documentation: 'https://ai.google.dev/gemini-api/docs/openai',
  baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
  dialect: 'chat',
  models,
  tableNames: ['gemini'],
};
