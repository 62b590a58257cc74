/** MiniMax has too many models to list them here. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const minimax: VendorDescription = {
  name: 'minimax',
  title: 'MiniMax',
  documentation: 'https://platform.minimax.io/docs/api-reference/text-openai-api',
  baseUrl: 'https://api.minimax.io/v1',
  dialect: 'chat',
  tableNames: ['minimax'],
};
