/** Together has too many models to list them here. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const together: VendorDescription = {
  name: 'together',
  title: 'Together',
  documentation: 'https://docs.together.ai/docs/openai-api-compatibility',
  hosts: ['api.together.xyz', 'api.together.ai'],
  baseUrl: 'https://api.together.xyz/v1',
  dialect: 'chat',
  tableNames: ['together_ai'],
};
