/** Fireworks has too many models to list them here. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const fireworks: VendorDescription = {
  name: 'fireworks',
  title: 'Fireworks',
  documentation: 'https://docs.fireworks.ai/tools-sdks/openai-compatibility',
  baseUrl: 'https://api.fireworks.ai/inference/v1',
  dialect: 'chat',
  tableNames: ['fireworks_ai', 'fireworks_ai-embedding-models'],
};
