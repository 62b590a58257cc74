import type { Stop } from './services.ts';

declare global {
  // Jest loads set-up and teardown apart from each other: what one leaves for the other it leaves here.
  var stopTestServices: Stop | undefined;
}

/** Run by jest once, after the last test file. */
export default async function tearDown(): Promise<void> {
  await globalThis.stopTestServices?.();
}
