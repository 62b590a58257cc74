/**
 * Creates a directory for the temporary files of a test run. The tests copy hundreds of databases into it. On a disk,
 * that takes a third of the run, so we use a directory in memory if enough of it is free.
 */
import { chmodSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';

/** Linux's in-memory file system. */
const memoryDirectory = '/dev/shm';
const tmpfsType = 0x0102_1994;
/** A test run has a few hundred MiB of files. We need far more than that, because it also starts many processes. */
const minFreeBytes = 4 * 1024 ** 3;
/** A test could write in an endless loop. Stop before it has used up the machine's memory. */
const maxBytes = 2 * 1024 ** 3;
const checkIntervalMs = 2_000;

/**
 * @param {(reason: string) => void} onFull called once when the directory in memory holds more than 2 GiB
 * @returns {{ path: string, remove: () => void }}
 */
export function createTestDirectory(onFull) {
  const isInMemory = hasMemoryToSpare();
  const path = mkdtempSync(join(isInMemory ? memoryDirectory : tmpdir(), 'gateway-test-run-'));
  // PostgreSQL refuses to run as root, so if we're root, the tests run it as a different user. Let that user into this
  // directory.
  chmodSync(path, 0o711);
  const usedAtStart = isInMemory ? usedBytes() : 0;
  const timer = setInterval(() => {
    if (!isInMemory || usedBytes() - usedAtStart <= maxBytes) return;
    clearInterval(timer);
    onFull(`the tests filled ${path} with more than 2 GiB`);
  }, checkIntervalMs);
  return {
    path,
    remove() {
      clearInterval(timer);
      rmSync(path, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

function usedBytes() {
  const { blocks, bfree, bsize } = statfsSync(memoryDirectory);
  return (blocks - bfree) * bsize;
}

function hasMemoryToSpare() {
  if (process.platform !== 'linux') return false;
  try {
    const { type, bavail, bsize } = statfsSync(memoryDirectory);
    return type === tmpfsType && bavail * bsize >= minFreeBytes && freemem() >= minFreeBytes;
  } catch {
    return false;
  }
}
