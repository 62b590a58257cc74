/** Provides the local embedder's files to scripts whose gateway uses it. */
import { embedderFiles } from '../test/support/embedder-files.ts';
import { BootstrapError } from './npm.js';

/**
 * Downloads the files if they are missing. The gateway would otherwise do this in the background, and only log the
 * reason if it fails.
 */
export async function fetchLocalEmbedder() {
  await embedderFiles().catch((error) => {
    throw new BootstrapError(`the local embedder is not available: ${error.message}`);
  });
}
