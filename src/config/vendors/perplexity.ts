/** Perplexity has too many models to list them here. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const perplexity: VendorDescription = {
  name: 'perplexity',
  title: 'Perplexity',
  documentation: 'https://docs.perplexity.ai/guides/chat-completions-guide',
  baseUrl: 'https://api.perplexity.ai',
  dialect: 'chat',
  tableNames: ['perplexity'],
};
