/**
 * Finds the Temporal program, or fetches it (decisions 1, 'Getting Temporal'). In order: `temporal` on the PATH, the cache directory, the
 * official download, `go install`. (The first way of all, `TEMPORAL_ADDRESS`, needs no program and is decided by the configuration.)
 *
 * The API does not wait for any of this. What was tried and why it failed goes to the log in plain lines; when nothing works, the
 * error says so once and durable work waits in the database.
 */
import { execFile } from 'node:child_process';
import { access, constants, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { errorSummary } from '../../core/error-messages.ts';
import { acquireFileLock } from '../../core/file-lock.ts';
import type { Logger } from '../../observability/logger.ts';
import { buildTemporal, downloadTemporal, type TemporalEnvironment } from './install-temporal.ts';

const run = promisify(execFile);

export interface ResolveTemporalOptions {
  readonly environment: TemporalEnvironment;
  readonly logger: Logger;
  /** Ends the search and the children it started. */
  readonly signal?: AbortSignal;
}

/** Path of a program that answers `--version`. Throws when no way led to one, or with the signal's reason. */
export async function resolveTemporalBinary({
  environment,
  logger,
  signal = new AbortController().signal,
}: ResolveTemporalOptions): Promise<string> {
  const { cacheDir } = environment;
  const existing = (await findOnPath(environment.path, signal)) ?? (await findInCache(cacheDir, signal));
  if (existing) return existing;
  logger.info({ cacheDir }, 'no temporal on the PATH or in the cache directory: fetching it');
  await mkdir(cacheDir, { recursive: true });
  const lock = await waitForLock(join(cacheDir, 'temporal.lock'), logger, signal);
  try {
    // Another start may have fetched it while we waited for the lock.
    return (await findInCache(cacheDir, signal)) ?? (await install(environment, logger, signal));
  } finally {
    lock.release();
  }
}

async function install(environment: TemporalEnvironment, logger: Logger, signal: AbortSignal): Promise<string> {
  const { cacheDir } = environment;
  await removeLeftovers(cacheDir);
  const installers = [
    { name: 'the official download', installInto: downloadTemporal },
    { name: 'go install', installInto: buildTemporal },
  ];
  const failures: string[] = [];
  for (const { name, installInto: fetch } of installers) {
    const folder = join(cacheDir, `.fetching-${process.pid}-${failures.length}`);
    const startedAt = performance.now();
    try {
      await mkdir(folder, { recursive: true });
      const version = await fetch({ folder, environment, logger, signal });
      if (!(await isRunnable(join(folder, 'temporal'), signal))) throw new Error('the program that came does not run on this machine');
      const target = join(cacheDir, `temporal-${version}`);
      await rm(target, { recursive: true, force: true }); // A folder without a working program, else it had been found.
      await rename(folder, target);
      logger.info({ seconds: Math.round((performance.now() - startedAt) / 1000) }, `temporal came by ${name}`);
      return join(target, 'temporal');
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      signal.throwIfAborted();
      failures.push(`${name}: ${errorSummary(error)}`);
      logger.warn({}, `temporal cannot be had by ${name}: ${errorSummary(error)}`);
    }
  }
  throw new Error(
    `no Temporal program (${failures.join('; ')}); put temporal on the PATH, or set TEMPORAL_ADDRESS or GATEWAY_TEMPORAL=off`,
  );
}

async function findOnPath(path: string, signal: AbortSignal): Promise<string | null> {
  for (const folder of path.split(delimiter)) {
    const program = join(folder, 'temporal');
    if (folder !== '' && (await isRunnable(program, signal))) return program;
  }
  return null;
}

/** The newest that runs; folders are named `temporal-<version>`. */
async function findInCache(cacheDir: string, signal: AbortSignal): Promise<string | null> {
  const names = await readdir(cacheDir).catch(() => []); // No cache yet is an empty one.
  const folders = names
    .filter((name) => name.startsWith('temporal-'))
    .sort((left, right) => right.localeCompare(left, 'en', { numeric: true }));
  for (const folder of folders) {
    const program = join(cacheDir, folder, 'temporal');
    if (await isRunnable(program, signal)) return program;
  }
  return null;
}

/** Is it Temporal's command line, and does it run here? (A cache may be on a disk shared with another kind of machine.) */
async function isRunnable(program: string, signal: AbortSignal): Promise<boolean> {
  try {
    await access(program, constants.X_OK);
    const { stdout } = await run(program, ['--version'], { timeout: 30_000, signal, env: {} });
    return stdout.startsWith('temporal version');
  } catch {
    signal.throwIfAborted();
    return false; // Not there, or not runnable: the next place may have it.
  }
}

/** Fetching holds a lock that the kernel frees at death, so two starts never fetch twice and a killed one leaves no obstacle. */
async function waitForLock(file: string, logger: Logger, signal: AbortSignal): Promise<{ release(): void }> {
  for (let waited = 0; ; waited++) {
    const lock = await acquireFileLock(file);
    if (lock) return lock;
    if (waited === 0) logger.info({}, 'another process is fetching temporal: waiting for it');
    await sleep(1_000, undefined, { signal });
  }
}

/** Half-made folders of processes that died; we hold the lock, so nobody works in one. */
async function removeLeftovers(cacheDir: string): Promise<void> {
  for (const name of await readdir(cacheDir)) {
    if (name.startsWith('.fetching-')) await rm(join(cacheDir, name), { recursive: true, force: true });
  }
}
