/**
 * Disk space kept for bad times: a file that is deleted when the disk is full, so that the calls that are open by then can still be
 * settled. Written with real bytes (a sparse file would reserve nothing, nor would zeros on a disk that compresses).
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { JournalFileSystem } from './file-system.ts';
import { ballastFileName } from './segment-name.ts';

export interface BallastFile {
  readonly exists: boolean;
  /** Writes the file; throws, and leaves nothing behind, when there is no room for it and `spareBytes` beside it. */
  create(spareBytes: number): Promise<void>;
  /** Deletes the file, if it is there. */
  release(): Promise<void>;
}

const chunkBytes = 1024 * 1024;

export function createBallastFile({ folder, files, bytes }: { folder: string; files: JournalFileSystem; bytes: number }): BallastFile {
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
    async create(spareBytes) {
      // What is on its way out takes room still, and its removal must not meet the new file. Whoever removes has been told of a fault.
      await removal.catch(() => undefined);
      if (exists) return;
      const free = await files.freeBytes(folder);
      // Looked at first, so that trying does not take the last bytes from those who settle meanwhile.
      if (free < bytes + spareBytes)
        throw Object.assign(new Error(`no room for the journal's reserve: ${free} bytes are free`), { code: 'ENOSPC' });
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
    async release() {
      // Not there from now on: a large file takes its time to go.
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
