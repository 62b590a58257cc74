/**
 * Keeps some disk space in reserve, by means of a file that we delete when the disk is full, so that calls in flight
 * can still be settled. The file contains random bytes, because sparse files don't take up any space and some file
 * systems would compress zeros.
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
     * Writes the file if it doesn't exist yet. Throws if that would leave less than `spareBytes` of free disk space.
     * Removes the incomplete file if the write fails.
     */
    async create(spareBytes: number): Promise<void> {
      // If the old file is still being deleted, wait for that. It takes up space until then, and the deletion could hit
      // the new file instead.
      await removal.catch(() => undefined); // `release` has already reported this error.
      if (exists) return;
      const free = await files.freeBytes(folder);
      // Check the free space first. A failed attempt would use up space that we need to settle calls.
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
      // Set this before the deletion, which can take a while for a large file, so that nobody relies on the file in the
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
