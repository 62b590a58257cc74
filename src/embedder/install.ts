/**
 * Gets the local embedder's files from the operator's folder or from the cache directory, and downloads whatever is
 * missing into the cache. Only one process per machine downloads at a time. All others wait and then use its result.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { waitForFileLock } from '../core/file-lock.ts';
import type { LocalModel } from '../core/local-model.ts';
import { type FetchOptions, fetchModel, fetchRuntime } from './fetch-files.ts';
import { findFiles, toComplete } from './find-files.ts';
import type { EmbedderFiles } from './messages.ts';
import { pinnedModels } from './pinned-files.ts';

export interface InstallOptions extends Omit<FetchOptions, 'target' | 'temporary'> {
  readonly models: readonly LocalModel[];
  /** A folder that the operator provides. It's searched first and never written to. Null if none is configured. */
  readonly folder: string | null;
  readonly cacheDir: string;
}

/**
 * If a file is missing and can't be fetched, throws an error with a one-sentence message. If the signal is aborted,
 * throws its reason.
 */
export async function provideFiles({ models, folder, cacheDir, ...shared }: InstallOptions): Promise<EmbedderFiles> {
  const { logger, signal } = shared;
  const folders = folder === null ? [cacheDir] : [folder, cacheDir];
  const found = toComplete(await findFiles(models, folders));
  if (found) return found;
  if (folder !== null)
    logger.warn(
      { settings: ['GATEWAY_LOCAL_EMBEDDER_DIR'] },
      'files in GATEWAY_LOCAL_EMBEDDER_DIR are missing or modified; fetching them into the cache directory',
    );
  const onWait = (): void => logger.info({}, 'waiting for another process to fetch the embedding model');
  const lock = await waitForFileLock(join(cacheDir, 'embedder.lock'), { onWait, signal });
  const temporary = join(cacheDir, `${temporaryPrefix}${process.pid}`);
  try {
    await removeLeftovers(cacheDir);
    const missing = await findFiles(models, folders);
    await mkdir(temporary, { recursive: true });
    const options = { ...shared, target: cacheDir, temporary };
    // Wait for all downloads even if one of them fails, so that the next attempt can use the files that did arrive.
    const results = await Promise.allSettled([
      ...missing.models.flatMap(({ name, ...paths }) => {
        const { weights, tokenizer } = pinnedModels[name];
        const files = [weights, tokenizer].filter((_, index) => [paths.weights, paths.tokenizer][index] === null);
        return files.length > 0 ? [fetchModel(name, files, options)] : [];
      }),
      ...(missing.runtime === null ? [fetchRuntime(options)] : []),
    ]);
    signal.throwIfAborted();
    for (const result of results) if (result.status === 'rejected') throw result.reason;
    const complete = toComplete(await findFiles(models, folders));
    if (!complete) throw new Error(`the fetched files have disappeared from ${cacheDir}; check that nothing else cleans up this directory`);
    return complete;
  } finally {
    await rm(temporary, { recursive: true, force: true }).finally(() => lock.release());
  }
}

/**
 * We can't use the prefix `.fetching-`, because Temporal's installer deletes every folder whose name starts with it.
 */
const temporaryPrefix = '.embedder-';

/** Deletes partial files of processes that have died. We hold the lock, so nobody can be using them. */
async function removeLeftovers(cacheDir: string): Promise<void> {
  for (const name of await readdir(cacheDir)) {
    if (name.startsWith(temporaryPrefix)) await rm(join(cacheDir, name), { recursive: true, force: true });
  }
}
