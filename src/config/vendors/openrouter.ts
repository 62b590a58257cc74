/** OpenRouter has too many models to list them here. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const openrouter: VendorDescription = {
  name: 'openrouter',
  title: 'OpenRouter',
  documentation: 'https://openrouter.ai/docs/api-reference/overview',
  baseUrl: 'https://openrouter.ai/api/v1',
  dialect: 'chat',
  requests: { takesReasoning: 'details' },
  tableNames: ['openrouter'],
};
