/**
 * Ballast file: disk space that is released when the disk is full, so that calls in flight can still be settled. Filled with random bytes, since
 * a sparse file, or zeros on a compressing file system, would reserve nothing.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { JournalFileSystem } from './file-system.ts';
import { ballastFileName } from './segment-name.ts';

const chunkBytes = 1024 * 1024;

export function createBallastFile({ folder, files, bytes }: { folder: string; files: JournalFileSystem; bytes: number }) {
  const path = join(folder, ballastFileName);
  const temporaryPath = `${path}.new`;
  let exists = false;
  let removal: Promise<void> = Promise.resolve();

  const fill = async (): Promise<void> => {
    const chunk = randomBytes(Math.min(chunkBytes, Math.max(1, bytes)));
    const file = await files.create(temporaryPath);
    try {
      for (let at = 0; at < bytes; at += chunk.length) await file.writeAll([chunk.subarray(0, Math.min(chunk.length, bytes - at))], at);
    } finally {
      await file.close();
    }
  };

  return {
    get exists() {
      return exists;
    },
    /** Writes the file unless it exists. Throws, leaving no file, when the disk has less space than it needs plus `spareBytes`. */
    async create(spareBytes: number): Promise<void> {
      // A file that is being deleted still occupies space, and its deletion must not hit the new file.
      await removal.catch(() => undefined); // Reported by `release`.
      if (exists) return;
      const free = await files.freeBytes(folder);
      // Checked first, so that the attempt does not use up the space that settling calls need.
      if (free < bytes + spareBytes)
        throw Object.assign(new Error(`${toMebibytes(free)} MiB free, the journal needs ${toMebibytes(bytes + spareBytes)} MiB`), {
          code: 'ENOSPC',
        });
      await files.remove(temporaryPath);
      try {
        await fill();
        await files.rename(temporaryPath, path);
        exists = true;
      } catch (error) {
        await files.remove(temporaryPath);
        throw error;
      }
    },
    /** Deletes the file if it exists. */
    async release(): Promise<void> {
      // At once: deleting a large file takes time.
      exists = false;
      removal = files.remove(path);
      try {
        await removal;
      } catch (error) {
        exists = true;
        throw error;
      }
    },
  };
}

function toMebibytes(bytes: number): string {
  return (bytes / 1024 ** 2).toFixed(1);
}
