/**
 * Disk space kept for bad times: a file that is deleted when the disk is full, so that the calls that are open by then can still be
 * settled. Written with real bytes (a sparse file would reserve nothing, nor would zeros on a disk that compresses).
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { JournalFiles } from './file-system.ts';
import { reserveName } from './segment-name.ts';

export interface Reserve {
  readonly isThere: boolean;
  /** Writes the file; throws, and leaves nothing behind, when there is no room for it and `spareBytes` beside it. */
  build(spareBytes: number): Promise<void>;
  /** Deletes the file, if it is there. */
  giveUp(): Promise<void>;
}

const chunkBytes = 1024 * 1024;

export function createReserve({ folder, files, bytes }: { folder: string; files: JournalFiles; bytes: number }): Reserve {
  const path = join(folder, reserveName);
  const unfinished = `${path}.new`;
  let isThere = false;
  let removing: Promise<void> = Promise.resolve();

  const fill = async (): Promise<void> => {
    const chunk = randomBytes(Math.min(chunkBytes, Math.max(1, bytes)));
    const file = await files.create(unfinished);
    try {
      for (let at = 0; at < bytes; at += chunk.length) await file.writeAll([chunk.subarray(0, Math.min(chunk.length, bytes - at))], at);
    } finally {
      await file.close();
    }
  };

  return {
    get isThere() {
      return isThere;
    },
    async build(spareBytes) {
      // What is on its way out takes room still, and its removal must not meet the new file. Whoever removes has been told of a fault.
      await removing.catch(() => undefined);
      if (isThere) return;
      const free = await files.freeBytes(folder);
      // Looked at first, so that trying does not take the last bytes from those who settle meanwhile.
      if (free < bytes + spareBytes)
        throw Object.assign(new Error(`no room for the journal's reserve: ${free} bytes are free`), { code: 'ENOSPC' });
      await files.remove(unfinished);
      try {
        await fill();
        await files.rename(unfinished, path);
        isThere = true;
      } catch (error) {
        await files.remove(unfinished);
        throw error;
      }
    },
    async giveUp() {
      // Not there from now on: a large file takes its time to go.
      isThere = false;
      removing = files.remove(path);
      try {
        await removing;
      } catch (error) {
        isThere = true;
        throw error;
      }
    },
  };
}
