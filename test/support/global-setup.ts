import { startServices } from './services.ts';

/** Run by jest once, before any test file. */
export default async function setUp(): Promise<void> {
  globalThis.stopTestServices = await startServices();
}
