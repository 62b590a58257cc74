/** The file operations of a journal. Handed in, so that tests can let a disk be full or broken at any of them. */
import { constants } from 'node:fs';
import { mkdir, open, readdir, rename, rm, statfs } from 'node:fs/promises';

/** A file that is open for appending. */
export interface OpenFile {
  /** Writes the buffers at `position`, all of them or throws; what was written before it threw stays in the file. */
  writeAll(buffers: readonly Buffer[], position: number): Promise<void>;
  sync(): Promise<void>;
  truncate(bytes: number): Promise<void>;
  close(): Promise<void>;
}

export interface JournalFileSystem {
  createFolder(folder: string): Promise<void>;
  /** Creates the file with mode 0600; fails when it exists. */
  create(file: string): Promise<OpenFile>;
  rename(from: string, to: string): Promise<void>;
  /** Removes a file or a folder with all in it; nothing happens when it is not there. */
  remove(path: string): Promise<void>;
  list(folder: string): Promise<string[]>;
  /** Bytes that this user may still write on the folder's disk. */
  freeBytes(folder: string): Promise<number>;
}

export const nodeFileSystem: JournalFileSystem = {
  async createFolder(folder) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  },
  async create(file) {
    const handle = await open(file, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, 0o600);
    return {
      async writeAll(buffers, position) {
        let remaining = buffers.filter((buffer) => buffer.length > 0);
        let offset = position;
        while (remaining.length > 0) {
          const { bytesWritten } = await handle.writev(remaining, offset);
          // A disk that fills up answers with a short write first; the next one brings its error.
          if (bytesWritten === 0) throw Object.assign(new Error('nothing was written'), { code: 'EIO' });
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
  list: (folder) => readdir(folder),
  async freeBytes(folder) {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  },
};

function skipBytes(buffers: readonly Buffer[], bytes: number): Buffer[] {
  let remaining = bytes;
  return buffers.flatMap((buffer) => {
    const skipped = Math.min(remaining, buffer.length);
    remaining -= skipped;
    return skipped === buffer.length ? [] : [buffer.subarray(skipped)];
  });
}
