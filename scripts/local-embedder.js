/** Provides the local embedder's files to scripts whose gateway needs them. */
import { defaultLocalModel } from '../src/core/local-model.ts';
import { embedderFiles } from '../test/support/embedder-files.ts';
import { BootstrapError } from './npm.js';

/**
 * Downloads a model's files if they're missing. The gateway would download them in the background, but if that failed,
 * the reason would only be in its log.
 * @param {import('../src/core/local-model.ts').LocalModel} [model]
 */
export async function fetchLocalEmbedder(model = defaultLocalModel) {
  await embedderFiles(model).catch((error) => {
    throw new BootstrapError(`the local embedder is not available: ${error.message}`);
  });
}
