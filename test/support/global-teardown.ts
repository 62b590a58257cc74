import type { Stop } from './services.ts';

declare global {
  // This has to be global, because Jest loads setup and teardown separately.
  var stopTestServices: Stop | undefined;
}

/** Jest calls this once, after the last test file. */
export default async function tearDown(): Promise<void> {
  await globalThis.stopTestServices?.();
}
