/** SambaNova has too many models to list them here. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const sambanova: VendorDescription = {
  name: 'sambanova',
  title: 'SambaNova',
  documentation: 'https://docs.sambanova.ai/cloud/api-reference/overview',
  baseUrl: 'https://api.sambanova.ai/v1',
  dialect: 'chat',
  tableNames: ['sambanova'],
};
