/**
 * Locks a file for the bootstrap. The process that holds the lock writes its pid to the file, so that others can tell
 * if it has died. It also touches the file regularly, because another program can get the same pid. If nobody has
 * touched the file for a while, the lock is abandoned.
 *
 * The service has a better lock, which the kernel releases. But Node 20 needs extra packages for that, and the
 * bootstrap has none.
 */
import { mkdir, open, readFile, rm, stat, utimes } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 200;
const STALE_MS = 15 * 60_000;

/**
 * Runs `work` while it holds a lock on `file`. If somebody else has the lock, calls `onWait` once and then waits.
 * @template Result
 * @param {string} file
 * @param {{ onWait: () => void, work: () => Promise<Result>, touchMs?: number }} options
 * @returns {Promise<Result>}
 */
export async function withFileLock(file, { onWait, work, touchMs = 60_000 }) {
  await mkdir(dirname(file), { recursive: true });
  for (let waits = 0; !(await take(file)); waits += 1) {
    if (waits === 0) onWait();
    if (await isAbandoned(file)) await rm(file, { force: true });
    else await sleep(POLL_MS);
  }
  const touching = setInterval(() => touch(file), touchMs);
  try {
    return await work();
  } finally {
    clearInterval(touching);
    await rm(file, { force: true });
  }
}

/** @param {string} file */
async function take(file) {
  try {
    const handle = await open(file, 'wx');
    await handle.write(String(process.pid));
    await handle.close();
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  }
}

/** @param {string} file */
async function touch(file) {
  const now = new Date();
  // The lock file may already be gone.
  await utimes(file, now, now).catch(() => undefined);
}

/** @param {string} file */
async function isAbandoned(file) {
  try {
    const [pid, { mtimeMs }] = await Promise.all([readFile(file, 'utf8'), stat(file)]);
    const ageMs = Date.now() - mtimeMs;
    // The process that created this file may be about to write its pid. If the file is still empty after a few seconds,
    // that process has died.
    if (pid === '') return ageMs > 5_000;
    return ageMs > STALE_MS || !isAlive(Number(pid));
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return hasCode(error, 'EPERM');
  }
}

/**
 * @param {unknown} error
 * @param {string} code
 */
export function hasCode(error, code) {
  return typeof error === 'object' && error !== null && 'code' in error && error.code === code;
}
