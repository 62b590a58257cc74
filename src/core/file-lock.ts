/**
 * A lock on a file that lives exactly as long as its holder: the kernel frees it at the process's death, also at a kill -9. So who is
 * dead is never judged by a pid, and a lock file that was left behind is no obstacle.
 *
 * Built on SQLite's exclusive lock (an fcntl record lock; SQLite also keeps a second holder of the same process out, which fcntl by
 * itself does not). Two consequences for everybody else:
 *
 * - Never open the lock file. POSIX drops a process's locks on a file when *any* of its descriptors of that file is closed.
 * - The file system must have working locks; every local one does, some network file systems do not.
 */
import { closeSync, openSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

export interface FileLock {
  /** Gives the lock back; the file stays. Calling it again does nothing. */
  release(): void;
}

const sqliteBusy = 5;

/** Takes the lock, creating the file (mode 0600) and its folders (0700). Null: another holder, in this process or another, has it. */
export async function acquireFileLock(file: string): Promise<FileLock | null> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw cannotLock(file, cause);
  });
  const inode = createFile(file);
  const connection = lockExclusively(file);
  if (connection === null) return null;
  // Between opening and locking, a former holder may have deleted the file: then we hold a lock that nobody else will ever meet.
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

/** Creates the file if it is absent and returns its inode. Synchronous and exclusive, so that no descriptor of a locked file is closed here. */
function createFile(file: string): bigint | null {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (cause) {
    if (errorCode(cause) !== 'EEXIST') throw cannotLock(file, cause);
  }
  return findInode(file);
}

/** The connection that holds the lock, or null when it is taken. */
function lockExclusively(file: string): DatabaseSync | null {
  let connection: DatabaseSync | null = null;
  try {
    connection = new DatabaseSync(file, { timeout: 0 });
    // The journal in memory keeps SQLite from putting a second file beside the lock.
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

// The errors of Node's own modules are looked at by their members: under jest they are no `Error` of the code that runs there.

function isBusy(error: unknown): boolean {
  const number = getMember(error, 'errcode');
  return typeof number === 'number' && (number & 0xff) === sqliteBusy;
}

function errorCode(error: unknown): unknown {
  return getMember(error, 'code');
}

function getMember(error: unknown, name: string): unknown {
  return typeof error === 'object' && error !== null ? Reflect.get(error, name) : undefined;
}

function cannotLock(file: string, cause: unknown): Error {
  const reason = String(getMember(cause, 'message') ?? cause);
  return new Error(`cannot lock ${file}: ${reason} (is ${dirname(file)} writable?)`, { cause });
}
