/**
 * Uses the real file system as a simulated disk, to check the one in memory. Files would survive a power failure, so
 * there aren't any.
 */
import { appendFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { FileLock } from '../../src/core/file-lock.ts';
import type { OpenFile } from '../../src/journal/file-system.ts';
import { createBrokenDisk } from '../journal/broken-disk.ts';
import type { SimulatedDisk } from './memory-disk.ts';
import type { Host } from './world.ts';

export interface RealDisk extends SimulatedDisk {
  /** Releases the locks of dead processes, as the kernel does. */
  releaseLocks(): void;
  /** Closes the files that dead processes had opened. */
  closeFiles(): Promise<void>;
}

export function createRealDisk(folder: string): RealDisk {
  const { files, ...faults } = createBrokenDisk();
  const opened: OpenFile[] = [];
  const locks: { readonly host: Host; readonly lock: FileLock }[] = [];
  return {
    ...faults,
    filesOf: (host) => ({
      ...files,
      async create(path) {
        const file = await files.create(path);
        opened.push(file);
        return file;
      },
      async lock(file) {
        const lock = await files.lock(file);
        if (lock) locks.push({ host, lock });
        return lock;
      },
    }),
    tear: (file, bytes) => appendFile(file, bytes),
    async paths() {
      const entries = await readdir(folder, { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    },
    releaseLocks() {
      for (const { host, lock } of locks) if (!host.isAlive) lock.release();
    },
    async closeFiles() {
      // Most are closed.
      await Promise.allSettled(opened.map((file) => file.close()));
    },
  };
}
