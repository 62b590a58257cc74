/**
 * A lock on a file that lasts as long as its holder: the kernel releases it when the process dies, also after SIGKILL. Liveness is therefore
 * never judged by a pid, and a leftover lock file is harmless.
 *
 * Uses SQLite's exclusive lock: an fcntl record lock that also excludes a second holder in the same process. Two consequences:
 *
 * - Never open the lock file. POSIX releases a process's locks on a file when it closes *any* descriptor of that file.
 * - The file system must implement locks. Local ones do, some network file systems do not.
 */
import { closeSync, openSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode, errorMessage } from './error-messages.ts';
import { isObject } from './json/narrow.ts';

export interface FileLock {
  /** Releases the lock and keeps the file. Idempotent. */
  release(): void;
}

const sqliteBusy = 5;

/** Acquires the lock; creates the file (mode 0600) and its folders (0700). Null when this or another process holds it. */
export async function acquireFileLock(file: string): Promise<FileLock | null> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw cannotLock(file, cause);
  });
  const inode = createFile(file);
  const connection = lockExclusively(file);
  if (connection === null) return null;
  // A former holder may have deleted the file between opening and locking: this lock would then exclude no other process.
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

/** As `acquireFileLock`, but waits until another holder has released it; calls `onWait` before. Rejects when the signal is aborted. */
export async function waitForFileLock(file: string, { onWait, signal }: { onWait: () => void; signal: AbortSignal }): Promise<FileLock> {
  for (let waits = 0; ; waits += 1) {
    const lock = await acquireFileLock(file);
    if (lock) return lock;
    if (waits === 0) onWait();
    await sleep(1_000, undefined, { signal });
  }
}

/** Creates the file if it is missing and returns its inode. Synchronous and exclusive, so that it never closes a descriptor of a locked file. */
function createFile(file: string): bigint | null {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (cause) {
    if (errorCode(cause) !== 'EEXIST') throw cannotLock(file, cause);
  }
  return findInode(file);
}

/** The connection that holds the lock; null when another holder has it. */
function lockExclusively(file: string): DatabaseSync | null {
  let connection: DatabaseSync | null = null;
  try {
    connection = new DatabaseSync(file, { timeout: 0 });
    // With its journal in memory SQLite creates no second file.
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
