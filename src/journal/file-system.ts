/** File operations of a journal. Tests replace them to simulate a full or failing disk. */
import { constants, writevSync } from 'node:fs';
import { open, rename, rm, statfs } from 'node:fs/promises';

/** A file opened for appending. */
export interface OpenFile {
  /** Writes all buffers at `position`, or throws; then part of them may be in the file. */
  writeAll(buffers: readonly Buffer[], position: number): Promise<void>;
  /** As `writeAll`, on the thread of the event loop. */
  writeAllSync(buffers: readonly Buffer[], position: number): void;
  sync(): Promise<void>;
  truncate(bytes: number): Promise<void>;
  close(): Promise<void>;
}

export interface JournalFileSystem {
  /** Creates the file with mode 0600; fails when it exists. */
  create(file: string): Promise<OpenFile>;
  rename(from: string, to: string): Promise<void>;
  /** Removes a file, or a folder with its contents, if it exists. */
  remove(path: string): Promise<void>;
  /** Free bytes on the folder's disk for this user. */
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
        let remaining = buffers.filter(({ length }) => length > 0);
        while (remaining.length > 0) {
          const bytesWritten = writevSync(handle.fd, remaining, offset);
          offset += bytesWritten;
          remaining = skipBytes(remaining, bytesWritten);
        }
      },
      sync: () => handle.datasync(),
      truncate: (bytes) => handle.truncate(bytes),
      close: () => handle.close(),
    };
  },
  rename,
  remove: (path) => rm(path, { recursive: true, force: true }),
  async freeBytes(folder) {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  },
};

/** What remains to be written. A disk that fills up first causes a short write; the next write fails with its error. */
function skipBytes(buffers: readonly Buffer[], bytes: number): Buffer[] {
  if (bytes === 0) throw Object.assign(new Error('nothing was written'), { code: 'EIO' });
  let remaining = bytes;
  return buffers.flatMap((buffer) => {
    const skipped = Math.min(remaining, buffer.length);
    remaining -= skipped;
    return skipped === buffer.length ? [] : [buffer.subarray(skipped)];
  });
}
