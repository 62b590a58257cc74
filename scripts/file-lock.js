/**
 * Locks a file for the bootstrap. The file contains the pid of the process that holds the lock, so that we can tell if
 * that process has died. It also touches the file regularly. If the file hasn't been touched for a while, the lock is
 * abandoned, even if another program has the same pid now. The service itself uses a lock that the kernel releases, but
 * Node 20 can't do that without extra packages.
 */
import { mkdir, open, readFile, rm, stat, utimes } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 200;
const STALE_MS = 15 * 60_000;

/**
 * Runs `work` while holding a lock on `file`. If another process holds the lock, calls `onWait` once and waits.
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
  // The file may be gone already, in which case there is nothing to touch.
  await utimes(file, now, now).catch(() => undefined);
}

/** @param {string} file */
async function isAbandoned(file) {
  try {
    const [pid, { mtimeMs }] = await Promise.all([readFile(file, 'utf8'), stat(file)]);
    const ageMs = Date.now() - mtimeMs;
    // A process first creates the file and then writes its pid. An empty file may be between these two steps, so we
    // only treat it as abandoned after a few seconds.
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
