import { startServices } from './services.ts';

/** Jest calls this once, before the first test file. */
export default async function setUp(): Promise<void> {
  globalThis.stopTestServices = await startServices();
}
