export { checkProviders } from '../app/check-providers.ts';
