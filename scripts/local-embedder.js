/** Provides the local embedder's files to scripts whose gateway uses it. */
import { embedderFiles } from '../test/support/embedder-files.ts';
import { BootstrapError } from './npm.js';

/**
 * Downloads the files if they are missing. Otherwise the gateway would do it in the background, and if that failed,
 * we'd only find the reason in its log.
 */
export async function fetchLocalEmbedder() {
  await embedderFiles().catch((error) => {
    throw new BootstrapError(`the local embedder is not available: ${error.message}`);
  });
}
