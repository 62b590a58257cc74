/** Novita has too many models to list them here. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const novita: VendorDescription = {
  name: 'novita',
  title: 'Novita',
  documentation: 'https://novita.ai/docs/guides/llm-api',
  baseUrl: 'https://api.novita.ai/v3/openai',
  dialect: 'chat',
  tableNames: ['novita'],
};
