/**
 * The real file system with simulated faults, i.e. a disk that is full, fails, or has a limited number of free bytes.
 */
import { type JournalFileSystem, nodeFileSystem } from '../../src/journal/file-system.ts';

export interface BrokenDisk {
  readonly files: JournalFileSystem;
  /** Limits the free bytes from now on. Removing a file frees its bytes. Null removes the limit. */
  leave(bytes: number | null): void;
  /** Makes every write fail with this code from now on. Null ends this. */
  fail(code: string | null): void;
  /** Makes truncating a file fail too. */
  failTruncate(fails: boolean): void;
}

export function createBrokenDisk(): BrokenDisk {
  const sizes = new Map<string, number>();
  let free: number | null = null;
  let code: string | null = null;
  let truncateFails = false;
  const throwError = (reason: string): never => {
    throw Object.assign(new Error(`${reason}: simulated`), { code: reason });
  };
  const files: JournalFileSystem = {
    ...nodeFileSystem,
    async create(file) {
      if (code !== null) throwError(code);
      const real = await nodeFileSystem.create(file);
      sizes.set(file, 0);
      /** Like on a real disk, part of the data may be written before the error, which the returned function throws. */
      const beginWrite = (buffers: readonly Buffer[], position: number): { partial: Buffer[]; end: () => void } => {
        const all = Buffer.concat([...buffers]);
        const fitting = Math.min(all.length, free ?? all.length);
        const written = code === null ? fitting : Math.min(fitting, Math.floor(all.length / 2));
        const end = (): void => {
          sizes.set(file, position + written);
          if (free !== null) free -= written;
          if (code !== null) throwError(code);
          if (written < all.length) throwError('ENOSPC');
        };
        return { partial: [all.subarray(0, written)], end };
      };
      return {
        ...real,
        async writeAll(buffers, position) {
          const { partial, end } = beginWrite(buffers, position);
          await real.writeAll(partial, position);
          end();
        },
        writeAllSync(buffers, position) {
          const { partial, end } = beginWrite(buffers, position);
          real.writeAllSync(partial, position);
          end();
        },
        async truncate(bytes) {
          if (truncateFails) throwError('EIO');
          await real.truncate(bytes);
          if (free !== null) free += (sizes.get(file) ?? 0) - bytes;
          sizes.set(file, bytes);
        },
      };
    },
    async rename(from, to) {
      await nodeFileSystem.rename(from, to);
      sizes.set(to, sizes.get(from) ?? 0);
      sizes.delete(from);
    },
    async remove(path) {
      await nodeFileSystem.remove(path);
      for (const [file, bytes] of sizes) {
        if (file !== path && !file.startsWith(`${path}/`)) continue;
        if (free !== null) free += bytes;
        sizes.delete(file);
      }
    },
    freeBytes: async () => free ?? Number.MAX_SAFE_INTEGER,
  };
  return {
    files,
    leave(bytes) {
      free = bytes;
    },
    fail(next) {
      code = next;
    },
    failTruncate(fails) {
      truncateFails = fails;
    },
  };
}
