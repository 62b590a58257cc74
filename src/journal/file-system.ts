/**
 * File operations for the journal, its drain and its recovery. Tests replace them to simulate full or failing disks and
 * power failures.
 */
import { constants, existsSync, writeSync } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errorCode } from '../core/error-messages.ts';
import { acquireFileLock, type FileLock } from '../core/file-lock.ts';

export interface OpenFile {
  /** Writes all buffers at `position`. If this throws, some of the bytes may have been written. */
  writeAll(buffers: readonly Buffer[], position: number): Promise<void>;
  /** Like `writeAll`, but blocks the event loop. */
  writeAllSync(buffers: readonly Buffer[], position: number): void;
  sync(): Promise<void>;
  truncate(bytes: number): Promise<void>;
  close(): Promise<void>;
}

export interface JournalFileSystem {
  /** Creates the file with mode 0600. Fails if it exists. */
  create(file: string): Promise<OpenFile>;
  /** Reads `bytes` bytes from `position`, or fewer if the file ends before that. */
  read(file: string, position: number, bytes: number): Promise<Buffer>;
  size(file: string): Promise<number>;
  /** Writes a whole file with mode 0600, and replaces an existing one. Missing folders are created with mode 0700. */
  write(file: string, bytes: Buffer): Promise<void>;
  exists(path: string): boolean;
  /** Lists the names in a folder. Returns an empty list if the folder doesn't exist. */
  list(folder: string): Promise<string[]>;
  /**
   * Flushes the directory entries of a folder. If we didn't do this, a power failure could make a file disappear even
   * though its content has been flushed.
   */
  syncFolder(folder: string): Promise<void>;
  /** See `acquireFileLock`. */
  lock(file: string): Promise<FileLock | null>;
  rename(from: string, to: string): Promise<void>;
  /** Removes a file or folder, including its contents. Does nothing if it doesn't exist. */
  remove(path: string): Promise<void>;
  /** Returns how many more bytes this user can write to the disk that contains the folder. */
  freeBytes(folder: string): Promise<number>;
}

export const nodeFileSystem: JournalFileSystem = {
  async create(file) {
    const handle = await open(file, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, 0o600);
    return {
      async writeAll(buffers, position) {
        let offset = position;
        let remaining = buffers.filter(({ length }) => length > 0);
        while (remaining.length > 0) {
          const { bytesWritten } = await handle.writev(remaining, offset);
          offset += bytesWritten;
          remaining = skipBytes(remaining, bytesWritten);
        }
      },
      writeAllSync(buffers, position) {
        let offset = position;
        for (const buffer of buffers) {
          for (let written = 0; written < buffer.length; ) {
            const bytes = writeSync(handle.fd, buffer, written, buffer.length - written, offset);
            if (bytes === 0) throw nothingWritten();
            written += bytes;
            offset += bytes;
          }
        }
      },
      sync: () => handle.datasync(),
      truncate: (bytes) => handle.truncate(bytes),
      close: () => handle.close(),
    };
  },
  async read(file, position, bytes) {
    const handle = await open(file, 'r');
    try {
      const buffer = Buffer.allocUnsafeSlow(bytes);
      let at = 0;
      while (at < bytes) {
        const { bytesRead } = await handle.read(buffer, at, bytes - at, position + at);
        if (bytesRead === 0) break;
        at += bytesRead;
      }
      return buffer.subarray(0, at);
    } finally {
      await handle.close();
    }
  },
  size: async (file) => (await stat(file)).size,
  async write(file, bytes) {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    await writeFile(file, bytes, { mode: 0o600 });
  },
  exists: existsSync,
  list: (folder) =>
    readdir(folder).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT') return [];
      throw error;
    }),
  async syncFolder(folder) {
    const handle = await open(folder, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
  lock: acquireFileLock,
  rename,
  // Retry, because two recoveries may be deleting the same folder.
  remove: (path) => rm(path, { recursive: true, force: true, maxRetries: 3 }),
  async freeBytes(folder) {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  },
};

/**
 * Returns what's left of `buffers` after the first `bytes` bytes have been written. A short write isn't an error yet,
 * because when a disk fills up, the first write is cut short and only the next one fails. Throws if nothing was written
 * at all.
 */
function skipBytes(buffers: readonly Buffer[], bytes: number): Buffer[] {
  if (bytes === 0) throw nothingWritten();
  let remaining = bytes;
  return buffers.flatMap((buffer) => {
    const skipped = Math.min(remaining, buffer.length);
    remaining -= skipped;
    return skipped === buffer.length ? [] : [buffer.subarray(skipped)];
  });
}

function nothingWritten(): Error {
  return Object.assign(new Error('expected the write to make progress, but no bytes were written'), { code: 'EIO' });
}
