/** DeepInfra has too many models to list them here. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const deepinfra: VendorDescription = {
  name: 'deepinfra',
  title: 'DeepInfra',
  documentation: 'https://deepinfra.com/docs/openai_api',
  baseUrl: 'https://api.deepinfra.com/v1/openai',
  dialect: 'chat',
  tableNames: ['deepinfra'],
};
