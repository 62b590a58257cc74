/**
 * Finds the real files of the local embedder in the operator's folder or in the cache directory, and starts its
 * process. If the files are missing, we download them once.
 */
import { resolve } from 'node:path';
import { cacheDirectory } from '../../scripts/cache.js';
import { defaultLocalModel, type LocalModel } from '../../src/core/local-model.ts';
import { provideFiles } from '../../src/embedder/install.ts';
import type { EmbedderFiles } from '../../src/embedder/messages.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { run } from './run.ts';

export function embedderFiles(...models: readonly LocalModel[]): Promise<EmbedderFiles> {
  const logger = createLogger({ level: 'silent' });
  const signal = AbortSignal.timeout(600_000);
  const folder = process.env.GATEWAY_LOCAL_EMBEDDER_DIR;
  return provideFiles({
    models: models.length > 0 ? models : [defaultLocalModel],
    folder: folder ? resolve(folder) : null,
    cacheDir: cacheDirectory(),
    variables: process.env,
    logger,
    signal,
  });
}

/** Returns the pid of a service's embedder. NaN if it has none. */
export async function findEmbedder(servicePid: number | undefined): Promise<number> {
  const children = await run('ps', ['-A', '-o', 'ppid=,pid=,args=']);
  const [, pid] = new RegExp(`^ *${servicePid} +(\\d+) .*main\\.ts embedder$`, 'm').exec(children) ?? [];
  return Number(pid);
}
