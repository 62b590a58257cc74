/**
 * The ballast file reserves disk space. When the disk is full we delete the file, so that calls in flight can still be
 * settled. It's filled with random bytes, because sparse files don't reserve any space, and some file systems compress
 * zeros.
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
     * Writes the file unless it exists. Throws if this would leave less than `spareBytes` of free disk space. An
     * incomplete file is removed again.
     */
    async create(spareBytes: number): Promise<void> {
      // Wait for a deletion that's still going on. The old file takes up space until then, and the new one could be
      // deleted in its place.
      await removal.catch(() => undefined); // already reported by `release`
      if (exists) return;
      const free = await files.freeBytes(folder);
      // Check the free space first, so that a failed attempt doesn't use up the space that we need to settle calls.
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
      // Set this before the deletion, which can take a while for a large file, so that nobody uses the file in the
      // meantime.
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
