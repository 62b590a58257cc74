/**
 * `gateway fetch-embedder` fetches the files of the local embedder without starting a service, e.g. for an image or for
 * a machine without a network.
 */
import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { cacheDirectory } from '../config/cache-directory.ts';
import { errorSummary } from '../core/error-messages.ts';
import { provideFiles } from '../embedder/install.ts';
import { createLogger } from '../observability/logger.ts';
import type { ServiceHost } from './service-host.ts';
import { StartError } from './start-error.ts';

/** Fetches the files into the folder, or into the cache directory by default. Throws StartError. */
export async function fetchEmbedder(folder: string | null, { env, stopping, write }: ServiceHost): Promise<void> {
  const target = folder === null ? cacheDirectory(env) : resolve(folder);
  try {
    await mkdir(target, { recursive: true });
    await provideFiles({
      folder: null,
      cacheDir: target,
      variables: env,
      logger: createLogger({ level: 'info', format: 'auto' }),
      signal: stopping,
    });
  } catch (cause) {
    throw new StartError(`the files of the local embedder cannot be fetched: ${errorSummary(cause)}`, { cause });
  }
  write(`The files of the local embedder are in ${target}\n`);
}
