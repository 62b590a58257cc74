/**
 * A disk in memory that all simulated processes of a machine share. It can fill up and fail, and in a power failure it
 * loses everything that wasn't flushed. Operations take virtual time. If the process dies in the meantime, an operation
 * may have happened completely, partly, or not at all.
 */
import { dirname } from 'node:path';
import type { FileLock } from '../../src/core/file-lock.ts';
import type { JournalFileSystem, OpenFile } from '../../src/journal/file-system.ts';
import type { Host, World } from './world.ts';

export interface SimulatedDisk {
  /** The disk as one process sees it. */
  filesOf(host: Host): JournalFileSystem;
  /** Limits the free bytes from now on. Null removes the limit. */
  leave(bytes: number | null): void;
  /** Makes writes fail with this code from now on. Null ends this. */
  fail(code: string | null): void;
  /** Makes truncating a file fail too. */
  failTruncate(fails: boolean): void;
  /** Appends bytes to a file, like a write that was in progress when its process died. */
  tear(file: string, bytes: Buffer): Promise<void>;
  /** Paths of all files. */
  paths(): Promise<string[]>;
}

interface MemoryFile {
  bytes: Buffer;
  /** The length that a power failure keeps. */
  flushed: number;
}

export interface MemoryDisk extends SimulatedDisk {
  /** All processes must be dead. */
  failPower(): void;
}

/** The share of operations that take longer than a microtask. */
const slowShare = 0.1;

export function createMemoryDisk(world: World): MemoryDisk {
  const { random } = world;
  const files = new Map<string, MemoryFile>();
  const folders = new Set<string>();
  /** Files that a power failure restores, because their names were flushed and they have been removed since. */
  const removed = new Map<string, MemoryFile>();
  const flushedNames = new Set(['/data']);
  const locks = new Map<string, Host>();
  let free: number | null = null;
  let code: string | null = null;
  let truncateFails = false;

  const fail = (reason: string): never => {
    throw Object.assign(new Error(`${reason}: simulated`), { code: reason });
  };
  const find = (path: string): MemoryFile => files.get(path) ?? fail('ENOENT');

  /** Executes an operation of a process. `partial` is what may have happened if the process dies meanwhile. */
  const operate = async <Result>(host: Host, execute: () => Result, partial: () => void = () => undefined): Promise<Result> => {
    if (!random.chance(slowShare)) return execute();
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    world.after(random.between(0, 30), null, () => {
      if (!host.isAlive) {
        if (random.chance(0.5)) happen(partial);
        return;
      }
      let answer: () => void;
      try {
        const result = execute();
        answer = () => resolve(result);
      } catch (error) {
        answer = () => reject(error);
      }
      world.after(0, host, answer);
    });
    return promise;
  };

  /** Its error is not reported. */
  const happen = (partial: () => void): void => {
    try {
      partial();
    } catch {
      // The disk is full or failing.
    }
  };

  const addFolder = (folder: string): void => {
    for (let path = folder; path !== '/'; path = dirname(path)) folders.add(path);
  };
  /** Writes as much as fits, and throws if that is not everything. */
  const writeAt = (file: MemoryFile, data: Buffer, position: number): void => {
    const fitting = Math.min(data.length, free ?? data.length);
    const written = code === null ? fitting : Math.min(fitting, Math.floor(data.length / 2));
    const gap = Buffer.alloc(Math.max(0, position - file.bytes.length));
    file.bytes = Buffer.concat([file.bytes.subarray(0, position), gap, data.subarray(0, written), file.bytes.subarray(position + written)]);
    file.flushed = Math.min(file.flushed, position);
    if (free !== null) free -= written;
    if (code !== null) fail(code);
    if (written < data.length) fail('ENOSPC');
  };
  const removeFile = (path: string): void => {
    const file = files.get(path);
    if (!file) return;
    files.delete(path);
    if (flushedNames.has(path)) removed.set(path, file);
    if (free !== null) free += file.bytes.length;
  };
  const isIn = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);

  const createFile = (path: string): MemoryFile => {
    if (code !== null) fail(code);
    if (files.has(path)) fail('EEXIST');
    if (!folders.has(dirname(path))) fail('ENOENT');
    const file = { bytes: Buffer.alloc(0), flushed: 0 };
    files.set(path, file);
    return file;
  };

  const openFile = (host: Host, file: MemoryFile): OpenFile => ({
    writeAll(buffers, position) {
      const data = Buffer.concat([...buffers]);
      const tear = (): void => writeAt(file, data.subarray(0, random.between(0, data.length)), position);
      return operate(host, () => writeAt(file, data, position), tear);
    },
    writeAllSync(buffers, position) {
      writeAt(file, Buffer.concat([...buffers]), position);
    },
    sync: () =>
      operate(host, () => {
        if (code !== null) fail(code);
        file.flushed = file.bytes.length;
      }),
    truncate: (bytes) =>
      operate(host, () => {
        if (truncateFails) fail('EIO');
        if (free !== null) free += file.bytes.length - bytes;
        file.bytes = file.bytes.subarray(0, bytes);
        file.flushed = Math.min(file.flushed, bytes);
      }),
    close: async () => undefined,
  });

  const filesOf = (host: Host): JournalFileSystem => ({
    create: async (path) =>
      openFile(
        host,
        await operate(
          host,
          () => createFile(path),
          () => void createFile(path),
        ),
      ),
    read: (path, position, bytes) => operate(host, () => Buffer.from(find(path).bytes.subarray(position, position + bytes))),
    size: (path) => operate(host, () => find(path).bytes.length),
    write: (path, bytes) =>
      operate(host, () => {
        addFolder(dirname(path));
        removeFile(path);
        writeAt(createFile(path), bytes, 0);
      }),
    exists: (path) => files.has(path) || folders.has(path),
    list: (folder) =>
      operate(host, () => {
        const paths = [...files.keys(), ...folders].filter((path) => dirname(path) === folder);
        return paths.map((path) => path.slice(folder.length + 1));
      }),
    syncFolder: (folder) =>
      operate(host, () => {
        if (code !== null) fail(code);
        for (const path of [...files.keys(), ...folders]) if (dirname(path) === folder) flushedNames.add(path);
        for (const path of removed.keys()) if (dirname(path) === folder) removed.delete(path);
      }),
    async lock(path): Promise<FileLock | null> {
      addFolder(dirname(path));
      const holder = locks.get(path);
      if (holder?.isAlive) return null;
      if (!files.has(path)) files.set(path, { bytes: Buffer.alloc(0), flushed: 0 });
      locks.set(path, host);
      return { release: () => void (locks.get(path) === host && locks.delete(path)) };
    },
    rename: (from, to) =>
      operate(host, () => {
        if (!files.has(from) && !folders.has(from)) fail('ENOENT');
        const moved = (path: string): string => to + path.slice(from.length);
        for (const [path, file] of [...files]) {
          if (!isIn(path, from)) continue;
          files.delete(path);
          files.set(moved(path), file);
        }
        for (const path of [...folders]) if (isIn(path, from) && folders.delete(path)) folders.add(moved(path));
        for (const [path, holder] of [...locks]) if (isIn(path, from) && locks.delete(path)) locks.set(moved(path), holder);
        // File systems rename in order, so a name that was flushed stays that way.
        for (const path of [...flushedNames]) if (isIn(path, from) && flushedNames.delete(path)) flushedNames.add(moved(path));
      }),
    remove: (path) => {
      const all = (): string[] => [...files.keys()].filter((file) => isIn(file, path));
      return operate(
        host,
        () => {
          for (const file of all()) removeFile(file);
          for (const folder of [...folders]) if (isIn(folder, path)) folders.delete(folder);
        },
        () => {
          for (const file of all()) if (random.chance(0.5)) removeFile(file);
        },
      );
    },
    freeBytes: async () => free ?? Number.MAX_SAFE_INTEGER,
  });

  const isNameKept = (path: string): boolean => {
    for (let name = path; name !== '/'; name = dirname(name)) if (!flushedNames.has(name)) return false;
    return true;
  };

  return {
    filesOf,
    leave(bytes) {
      free = bytes;
    },
    fail(next) {
      code = next;
    },
    failTruncate(fails) {
      truncateFails = fails;
    },
    async tear(path, bytes) {
      const file = find(path);
      file.bytes = Buffer.concat([file.bytes, bytes]);
    },
    paths: async () => [...files.keys()],
    failPower() {
      locks.clear();
      for (const [path, file] of removed) {
        if (!random.chance(0.3)) continue;
        files.set(path, file);
        addFolder(dirname(path));
      }
      removed.clear();
      for (const [path, file] of [...files]) {
        if (!isNameKept(path) && random.chance(0.5)) files.delete(path);
        // The length of a file may survive without its bytes, which are then zeros.
        const kept = random.between(file.flushed, file.bytes.length);
        const zeros = random.chance(0.3) ? random.between(0, file.bytes.length - kept) : 0;
        file.bytes = Buffer.concat([file.bytes.subarray(0, kept), Buffer.alloc(zeros)]);
        file.flushed = file.bytes.length;
      }
      for (const folder of [...folders]) if (![...files.keys()].some((path) => isIn(path, folder))) folders.delete(folder);
    },
  };
}
