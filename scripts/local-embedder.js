/** The files of the local embedder, for scripts whose gateway runs it. */
import { embedderFiles } from '../test/support/embedder-files.ts';
import { BootstrapError } from './npm.js';

/** Fetches them if they are missing: the gateway would do it in the background and tell the reason of a failure to its log alone. */
export async function fetchLocalEmbedder() {
  await embedderFiles().catch((error) => {
    throw new BootstrapError(`the local embedder is not available: ${error.message}`);
  });
}
