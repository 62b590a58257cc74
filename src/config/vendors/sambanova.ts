/** SambaNova. We don't list its models, because there are too many. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const sambanova: VendorDescription = {
  name: 'sambanova',
  title: 'SambaNova',
  documentation: 'https://docs.sambanova.ai/cloud/api-reference/overview',
  hosts: ['api.sambanova.ai'],
  baseUrl: 'https://api.sambanova.ai/v1',
  dialect: 'chat',
  tableNames: ['sambanova'],
};
