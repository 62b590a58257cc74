/**
 * Provides the local embedder's files from the operator's folder or the cache directory. If they're in neither, it
 * fetches them into the cache. Only one process of the machine fetches at a time, and the others wait and use the
 * result.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { waitForFileLock } from '../core/file-lock.ts';
import type { Logger } from '../observability/logger.ts';
import { fetchModel, fetchRuntime } from './fetch-files.ts';
import { type EmbedderFiles, findFiles, toComplete } from './find-files.ts';
import { tokenizer, weights } from './pinned-files.ts';
import type { Variables } from './run-program.ts';

export interface InstallOptions {
  /** The operator's folder. We look there first, and never write to it. Null if there is none. */
  readonly folder: string | null;
  /** The folder for fetched files. */
  readonly cacheDir: string;
  readonly variables: Variables;
  readonly hubAddress?: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Throws a single sentence if a file is missing and can't be fetched, or the signal's reason. */
export async function provideFiles({ folder, cacheDir, variables, hubAddress, logger, signal }: InstallOptions): Promise<EmbedderFiles> {
  const folders = folder === null ? [cacheDir] : [folder, cacheDir];
  const found = toComplete(await findFiles(folders));
  if (found) return found;
  if (folder !== null)
    logger.warn({ settings: ['GATEWAY_LOCAL_EMBEDDER_DIR'] }, 'files missing or different in the folder of the local embedder');
  const onWait = (): void => logger.info({}, 'waiting for another process to fetch the embedding model');
  const lock = await waitForFileLock(join(cacheDir, 'embedder.lock'), { onWait, signal });
  const temporary = join(cacheDir, `${temporaryPrefix}${process.pid}`);
  try {
    await removeLeftovers(cacheDir);
    const missing = await findFiles(folders);
    const files = [weights, tokenizer].filter((_, index) => [missing.weights, missing.tokenizer][index] === null);
    await mkdir(temporary, { recursive: true });
    const options = { target: cacheDir, temporary, variables, ...(hubAddress !== undefined && { hubAddress }), logger, signal };
    // Wait for both, so that if only one of them fails, the next attempt finds what the other has fetched.
    const results = await Promise.allSettled([
      ...(files.length > 0 ? [fetchModel(files, options)] : []),
      ...(missing.runtime === null ? [fetchRuntime(options)] : []),
    ]);
    signal.throwIfAborted();
    for (const result of results) if (result.status === 'rejected') throw result.reason;
    const complete = toComplete(await findFiles(folders));
    if (!complete) throw new Error(`the fetched files have disappeared from ${cacheDir}; check that nothing else cleans up this directory`);
    return complete;
  } finally {
    await rm(temporary, { recursive: true, force: true }).finally(() => lock.release());
  }
}

/** Don't use `.fetching-`, because the installer of Temporal deletes folders with that prefix. */
const temporaryPrefix = '.embedder-';

/** Deletes partial files of processes that died. The caller holds the lock, so nobody is using them. */
async function removeLeftovers(cacheDir: string): Promise<void> {
  for (const name of await readdir(cacheDir)) {
    if (name.startsWith(temporaryPrefix)) await rm(join(cacheDir, name), { recursive: true, force: true });
  }
}
