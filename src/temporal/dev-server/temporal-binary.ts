/**
 * Finds the Temporal CLI. We try `temporal` on the PATH, the cache directory, the official download and `go install`,
 * in this order. With `TEMPORAL_ADDRESS`, we don't need the CLI.
 *
 * The API doesn't wait for this. We log each installer that fails. If all of them do, a single error lists the reasons,
 * and durable work waits in the database.
 */
import { execFile } from 'node:child_process';
import { access, constants, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { errorSummary } from '../../core/error-messages.ts';
import { waitForFileLock } from '../../core/file-lock.ts';
import type { Logger } from '../../observability/logger.ts';
import { buildTemporal, downloadTemporal, type TemporalEnvironment } from './install-temporal.ts';

const run = promisify(execFile);

export interface ResolveTemporalOptions {
  readonly environment: TemporalEnvironment;
  readonly logger: Logger;
  /** Aborting the signal ends the search and kills all child processes that it has started. */
  readonly signal?: AbortSignal;
}

/**
 * Returns the path of a CLI that runs on this machine. Throws if all installers fail, or with the signal's reason if
 * that's aborted.
 */
export async function resolveTemporalBinary({
  environment,
  logger,
  signal = new AbortController().signal,
}: ResolveTemporalOptions): Promise<string> {
  const { cacheDir } = environment;
  const existing = (await findOnPath(environment.path, signal)) ?? (await findInCache(cacheDir, signal));
  if (existing) return existing;
  logger.info({ cacheDir }, 'Temporal not found on the PATH or in the cache; installing it');
  await mkdir(cacheDir, { recursive: true });
  const onWait = (): void => logger.info({}, 'waiting for another process to install Temporal');
  const lock = await waitForFileLock(join(cacheDir, 'temporal.lock'), { onWait, signal });
  try {
    // Another process may have installed the CLI while this one was waiting for the lock.
    return (await findInCache(cacheDir, signal)) ?? (await install(environment, logger, signal));
  } finally {
    lock.release();
  }
}

async function install(environment: TemporalEnvironment, logger: Logger, signal: AbortSignal): Promise<string> {
  const { cacheDir } = environment;
  await removeLeftovers(cacheDir);
  const installers = [
    { source: 'official download', installInto: downloadTemporal },
    { source: 'go install', installInto: buildTemporal },
  ];
  const failures: string[] = [];
  for (const { source, installInto } of installers) {
    const folder = join(cacheDir, `.fetching-${process.pid}-${failures.length}`);
    const startedAt = performance.now();
    try {
      await mkdir(folder, { recursive: true });
      const version = await installInto({ folder, environment, logger, signal });
      if (!(await isRunnable(join(folder, 'temporal'), signal))) throw new Error('the installed program does not run on this machine');
      const target = join(cacheDir, `temporal-${version}`);
      // The cache was searched before, so if this folder exists, the CLI in it doesn't work and we can replace the
      // folder.
      await rm(target, { recursive: true, force: true });
      await rename(folder, target);
      logger.info({ source, version, seconds: Math.round((performance.now() - startedAt) / 1000) }, 'installed Temporal');
      return join(target, 'temporal');
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      signal.throwIfAborted();
      failures.push(`${source}: ${errorSummary(error)}`);
      logger.warn({ source, err: error }, 'Temporal installation failed');
    }
  }
  throw new Error(
    `temporal is not installed (${failures.join('; ')}); add temporal to the PATH, or set TEMPORAL_ADDRESS or GATEWAY_TEMPORAL=off`,
  );
}

async function findOnPath(path: string, signal: AbortSignal): Promise<string | null> {
  for (const folder of path.split(delimiter)) {
    const program = join(folder, 'temporal');
    if (folder !== '' && (await isRunnable(program, signal))) return program;
  }
  return null;
}

async function findInCache(cacheDir: string, signal: AbortSignal): Promise<string | null> {
  // no cache directory yet
  const names = await readdir(cacheDir).catch(() => []);
  const folders = names
    .filter((name) => name.startsWith('temporal-'))
    .sort((left, right) => right.localeCompare(left, 'en', { numeric: true }));
  for (const folder of folders) {
    const program = join(cacheDir, folder, 'temporal');
    if (await isRunnable(program, signal)) return program;
  }
  return null;
}

/**
 * Checks whether the file is a Temporal CLI that runs on this machine. The cache may be shared with machines that have
 * a different architecture.
 */
async function isRunnable(program: string, signal: AbortSignal): Promise<boolean> {
  try {
    await access(program, constants.X_OK);
    const { stdout } = await run(program, ['--version'], { timeout: 30_000, signal, env: {} });
    return stdout.startsWith('temporal version');
  } catch {
    signal.throwIfAborted();
    // The file doesn't exist or isn't executable, so the caller has to try the next candidate.
    return false;
  }
}

/**
 * Deletes partial downloads and builds of processes that died. We hold the lock, so no installer can still be running.
 */
async function removeLeftovers(cacheDir: string): Promise<void> {
  for (const name of await readdir(cacheDir)) {
    if (name.startsWith('.fetching-')) await rm(join(cacheDir, name), { recursive: true, force: true });
  }
}
