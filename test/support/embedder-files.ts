/** The real files of the local embedder, from the cache directory of the tests, into which they are fetched once. */
import { cacheDirectory } from '../../scripts/cache.js';
import type { EmbedderFiles } from '../../src/embedder/find-files.ts';
import { provideFiles } from '../../src/embedder/install.ts';
import { createLogger } from '../../src/observability/logger.ts';

export function embedderFiles(): Promise<EmbedderFiles> {
  const logger = createLogger({ level: 'silent' });
  const signal = AbortSignal.timeout(600_000);
  return provideFiles({ folder: null, cacheDir: cacheDirectory(), variables: process.env, logger, signal });
}
