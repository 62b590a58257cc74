/**
 * Locks a file for the bootstrap. The file contains the pid of its holder, so we can tell if the holder has died. There
 * is also an age limit, in case another program has got the same pid since. The service itself uses a lock that the
 * kernel releases, but Node 20 can't do that without extra packages.
 */
import { mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 200;
const STALE_MS = 15 * 60_000;

/**
 * Runs `work` while holding the lock `file`. If another process holds it, calls `onWait` once and waits.
 * @template Result
 * @param {string} file
 * @param {{ onWait: () => void, work: () => Promise<Result> }} options
 * @returns {Promise<Result>}
 */
export async function withFileLock(file, { onWait, work }) {
  await mkdir(dirname(file), { recursive: true });
  for (let waits = 0; !(await take(file)); waits += 1) {
    if (waits === 0) onWait();
    if (await isAbandoned(file)) await rm(file, { force: true });
    else await sleep(POLL_MS);
  }
  try {
    return await work();
  } finally {
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
async function isAbandoned(file) {
  try {
    const [pid, { mtimeMs }] = await Promise.all([readFile(file, 'utf8'), stat(file)]);
    const ageMs = Date.now() - mtimeMs;
    // The holder creates the file before it writes its pid, so an empty file is only abandoned if it stays empty.
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
