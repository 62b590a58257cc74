import { startServices } from './services.ts';

/** Jest calls it once, before the first test file. */
export default async function setUp(): Promise<void> {
  globalThis.stopTestServices = await startServices();
}
