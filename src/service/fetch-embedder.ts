/**
 * Implements `gateway fetch-embedder`, which downloads the files of the local embedder without starting a service, e.g.
 * for an image or for a machine without network access.
 */
import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { cacheDirectory } from '../config/cache-directory.ts';
import { errorSummary } from '../core/error-messages.ts';
import { defaultLocalModel, localModels } from '../core/local-model.ts';
import { provideFiles } from '../embedder/install.ts';
import { createLogger } from '../observability/logger.ts';
import type { ServiceHost } from './service-host.ts';
import { StartError } from './start-error.ts';

interface FetchRequest {
  /** The folder for the files. Null for the cache directory. */
  readonly folder: string | null;
  /** The model to download. Null for the default model. */
  readonly model: string | null;
}

/** Downloads the files of an embedding model. Throws StartError. */
export async function fetchEmbedder({ folder, model }: FetchRequest, { env, stopping, write }: ServiceHost): Promise<void> {
  const chosen = localModels.find((name) => name === (model ?? defaultLocalModel));
  if (chosen === undefined) throw new StartError(`--model must be one of ${localModels.join(', ')}`);
  const target = folder === null ? cacheDirectory(env) : resolve(folder);
  try {
    await mkdir(target, { recursive: true });
    await provideFiles({
      models: [chosen],
      folder: null,
      cacheDir: target,
      variables: env,
      logger: createLogger({ level: 'info', format: 'auto' }),
      signal: stopping,
    });
  } catch (cause) {
    throw new StartError(`cannot fetch the local embedder: ${errorSummary(cause)}`, { cause });
  }
  write(`The files of ${chosen} are in ${target}\n`);
}
