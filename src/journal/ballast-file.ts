/**
 * The ballast file reserves disk space. When the disk is full we delete it, so that the calls in flight can still be
 * settled. We fill it with random bytes, because a sparse file reserves nothing, and neither do zeros if the file
 * system compresses them.
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
    /**
     * Writes the file unless it exists. Throws without leaving a file behind if the disk has less than `spareBytes` of
     * space beyond the file.
     */
    async create(spareBytes: number): Promise<void> {
      // A file that is being deleted still occupies space, and its deletion could hit the new file.
      await removal.catch(() => undefined); // `release` has reported the error.
      if (exists) return;
      const free = await files.freeBytes(folder);
      // We check this first, so that the attempt doesn't use up the space that we need to settle calls.
      if (free < bytes + spareBytes)
        throw Object.assign(
          new Error(`the disk has ${toMebibytes(free)} MiB free, but the journal needs ${toMebibytes(bytes + spareBytes)} MiB`),
          {
            code: 'ENOSPC',
          },
        );
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
    async release(): Promise<void> {
      // Deleting a large file takes time, so we set this before the file is gone.
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
