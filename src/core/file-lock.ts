/**
 * A file lock that is held until its holder releases it or dies. The kernel releases it even after SIGKILL, so we never
 * have to check whether a pid is alive, and a leftover lock file is harmless.
 *
 * We use SQLite's exclusive lock. This is an fcntl record lock, and it also excludes a second holder in the same
 * process. That has two consequences:
 *
 * - Never open the lock file. POSIX releases a process's locks on a file when the process closes *any* descriptor of
 *   that file.
 * - The file system has to support locks. Local file systems do, but some network file systems don't.
 */
import { closeSync, openSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode, errorMessage } from './error-messages.ts';
import { isObject } from './json/narrow.ts';

export interface FileLock {
  /** Releases the lock. Doesn't delete the file. Idempotent. */
  release(): void;
}

const sqliteBusy = 5;

/**
 * Acquires the lock, or returns null if this process or another one already holds it. If the file (mode 0600) and its
 * folders (0700) don't exist, this creates them.
 */
export async function acquireFileLock(file: string): Promise<FileLock | null> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw cannotLock(file, cause);
  });
  const inode = createFile(file);
  const connection = lockExclusively(file);
  if (connection === null) return null;
  // If the previous holder deleted the file before we locked it, nobody else can find the file that we've locked. So
  // our lock would be worthless.
  if (findInode(file) !== inode) {
    connection.close();
    return null;
  }
  let held = true;
  return {
    release() {
      if (!held) return;
      held = false;
      connection.close();
    },
  };
}

/**
 * Like `acquireFileLock`, but if somebody else holds the lock, this calls `onWait` and waits for its release. Rejects
 * when the signal is aborted.
 */
export async function waitForFileLock(file: string, { onWait, signal }: { onWait: () => void; signal: AbortSignal }): Promise<FileLock> {
  for (let waits = 0; ; waits += 1) {
    const lock = await acquireFileLock(file);
    if (lock) return lock;
    if (waits === 0) onWait();
    await sleep(1_000, undefined, { signal });
  }
}

/**
 * Creates the file if it doesn't exist, and returns its inode. We must not open a file that already exists, because
 * closing it would release the lock that this process may hold on it. The flag `wx` makes sure of that.
 */
function createFile(file: string): bigint | null {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (cause) {
    if (errorCode(cause) !== 'EEXIST') throw cannotLock(file, cause);
  }
  return findInode(file);
}

function lockExclusively(file: string): DatabaseSync | null {
  let connection: DatabaseSync | null = null;
  try {
    connection = new DatabaseSync(file, { timeout: 0 });
    // Keep SQLite's rollback journal in memory, so that SQLite doesn't create a second file next to the lock file.
    connection.exec('pragma journal_mode = memory; pragma locking_mode = exclusive; begin exclusive');
    return connection;
  } catch (cause) {
    connection?.close();
    if (isBusy(cause)) return null;
    throw cannotLock(file, cause);
  }
}

function findInode(file: string): bigint | null {
  return statSync(file, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}

function isBusy(error: unknown): boolean {
  return isObject(error) && typeof error.errcode === 'number' && (error.errcode & 0xff) === sqliteBusy;
}

function cannotLock(file: string, cause: unknown): Error {
  return new Error(`cannot lock ${file}: ${errorMessage(cause)} (is ${dirname(file)} writable?)`, { cause });
}
