/** Provides the files of the local embedder to scripts whose gateway needs them. */
import { defaultLocalModel } from '../src/core/local-model.ts';
import { embedderFiles } from '../test/support/embedder-files.ts';
import { BootstrapError } from './npm.js';

/**
 * Downloads a model's files if they're missing. The gateway would do this as well, but in the background, where an
 * error only ends up in the log.
 * @param {import('../src/core/local-model.ts').LocalModel} [model]
 */
export async function fetchLocalEmbedder(model = defaultLocalModel) {
  await embedderFiles(model).catch((error) => {
    throw new BootstrapError(`the local embedder is not available: ${error.message}`);
  });
}
