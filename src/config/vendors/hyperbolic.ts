/** Hyperbolic has too many models to list them here. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const hyperbolic: VendorDescription = {
  name: 'hyperbolic',
  title: 'Hyperbolic',
  documentation: 'https://docs.hyperbolic.xyz/docs/rest-api',
  baseUrl: 'https://api.hyperbolic.xyz/v1',
  dialect: 'chat',
  tableNames: ['hyperbolic'],
};
