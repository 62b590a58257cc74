import type { Stop } from './services.ts';

declare global {
  // Jest loads setup and teardown separately, so the global object is the only thing that they share.
  var stopTestServices: Stop | undefined;
}

/** Jest calls this once after the last test file. */
export default async function tearDown(): Promise<void> {
  await globalThis.stopTestServices?.();
}
