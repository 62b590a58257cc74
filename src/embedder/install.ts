/**
 * Provides the local embedder's files: the operator's folder, then the cache directory, else fetched into the cache. One process of the machine
 * fetches at a time; the others wait for it and use what it fetched.
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
  /** The operator's folder, searched first and never written; null without one. */
  readonly folder: string | null;
  /** Where files are fetched to. */
  readonly cacheDir: string;
  readonly variables: Variables;
  readonly hubAddress?: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Throws one sentence when a file is in no folder and cannot be fetched, and the signal's reason. */
export async function provideFiles({ folder, cacheDir, variables, hubAddress, logger, signal }: InstallOptions): Promise<EmbedderFiles> {
  const folders = folder === null ? [cacheDir] : [folder, cacheDir];
  const found = toComplete(await findFiles(folders));
  if (found) return found;
  if (folder !== null)
    logger.warn({ settings: ['GATEWAY_LOCAL_EMBEDDER_DIR'] }, 'the folder of the local embedder lacks files, or has others');
  const onWait = (): void => logger.info({}, 'waiting for another process to fetch the embedding model');
  const lock = await waitForFileLock(join(cacheDir, 'embedder.lock'), { onWait, signal });
  const temporary = join(cacheDir, `${temporaryPrefix}${process.pid}`);
  try {
    await removeLeftovers(cacheDir);
    const missing = await findFiles(folders);
    const files = [weights, tokenizer].filter((_, index) => [missing.weights, missing.tokenizer][index] === null);
    await mkdir(temporary, { recursive: true });
    const options = { target: cacheDir, temporary, variables, ...(hubAddress !== undefined && { hubAddress }), logger, signal };
    // Both, so that what one can fetch is there at the next try.
    const results = await Promise.allSettled([
      ...(files.length > 0 ? [fetchModel(files, options)] : []),
      ...(missing.runtime === null ? [fetchRuntime(options)] : []),
    ]);
    signal.throwIfAborted();
    for (const result of results) if (result.status === 'rejected') throw result.reason;
    const complete = toComplete(await findFiles(folders));
    if (!complete) throw new Error(`${cacheDir} does not keep what was fetched`);
    return complete;
  } finally {
    await rm(temporary, { recursive: true, force: true }).finally(() => lock.release());
  }
}

/** Not `.fetching-`, whose folders the installer of Temporal deletes. */
const temporaryPrefix = '.embedder-';

/** Deletes the partial files of processes that died. The caller holds the lock, so none of them is in use. */
async function removeLeftovers(cacheDir: string): Promise<void> {
  for (const name of await readdir(cacheDir)) {
    if (name.startsWith(temporaryPrefix)) await rm(join(cacheDir, name), { recursive: true, force: true });
  }
}
