/** Tests when the journal writes on the event loop, and that a disk that stalls doesn't block the process. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { createSyncWrites } from '../../src/core/sync-writes.ts';
import { type JournalFileSystem, nodeFileSystem } from '../../src/journal/file-system.ts';
import { createJournal, type Journal } from '../../src/journal/journal.ts';
import { until } from '../support/until.ts';
import { attemptStart, clockAt, factsOf, keepingLogger, noon, settledCall, withFolder, withText } from './calls.ts';

describe('synchronous journal writes', () => {
  const setUp = () => {
    let now = 1_000;
    const writes = createSyncWrites(() => now);
    const write = (ms: number): void =>
      writes.measure(() => {
        now += ms;
      });
    const wait = (ms: number): void => {
      now += ms;
    };
    return { writes, write, wait };
  };

  test('writes the journal synchronously while the disk is fast', () => {
    const { writes, write } = setUp();
    write(1);
    expect([writes.allows(1_000), writes.allows(256 * 1_024), writes.allows(256 * 1_024 + 1)]).toEqual([true, true, false]);
  });

  test('switches to asynchronous writes for ten times as long as the disk stalled', () => {
    const { writes, write, wait } = setUp();
    write(51);
    wait(509);
    expect(writes.allows(1)).toBe(false);
    wait(1);
    expect(writes.allows(1)).toBe(true);
  });

  test('spends no more than a tenth of the time in synchronous writes if the disk is always slow', () => {
    const { writes, write, wait } = setUp();
    let spent = 0;
    for (let elapsed = 0; elapsed < 60_000; elapsed += 10) {
      if (writes.allows(1)) {
        write(8);
        spent += 8;
      }
      wait(10);
    }
    expect(spent / 60_000).toBeGreaterThan(0.05);
    expect(spent / 60_000).toBeLessThan(0.11);
  });

  test('keeps writing synchronously if a few writes take milliseconds', () => {
    const { writes, write, wait } = setUp();
    for (let at = 0; at < 1_000; at += 1) {
      expect(writes.allows(1)).toBe(true);
      write(at % 50 === 0 ? 4 : 0.01);
      wait(1);
    }
  });

  test('also switches to asynchronous writes after a slow write that failed', () => {
    const { writes, wait } = setUp();
    const fail = (): void =>
      writes.measure(() => {
        wait(60);
        throw new Error('EIO');
      });
    expect(fail).toThrow('EIO');
    expect(writes.allows(1)).toBe(false);
  });
});

interface StallingDisk {
  readonly files: JournalFileSystem;
  /** How the records were written, in order. */
  readonly writes: ('sync' | 'async')[];
  /**
   * Makes each write take very long from now on. A synchronous one blocks the process for 60 ms, and an asynchronous
   * one ends at `release`.
   */
  stall(): void;
  release(): void;
}

function createStallingDisk(): StallingDisk {
  const writes: ('sync' | 'async')[] = [];
  let released: Promise<void> | null = null;
  let release = (): void => undefined;
  const files: JournalFileSystem = {
    ...nodeFileSystem,
    async create(file) {
      const real = await nodeFileSystem.create(file);
      if (!file.includes('segment')) return real;
      return {
        ...real,
        async writeAll(buffers, position) {
          writes.push('async');
          await released;
          await real.writeAll(buffers, position);
        },
        writeAllSync(buffers, position) {
          writes.push('sync');
          if (released) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60);
          real.writeAllSync(buffers, position);
        },
      };
    },
  };
  return {
    files,
    writes,
    stall() {
      ({ promise: released, resolve: release } = Promise.withResolvers<void>());
    },
    release() {
      release();
      released = null;
    },
  };
}

describe('a journal on a disk that stalls', () => {
  const withJournal = (sync: boolean, work: (journal: Journal, disk: StallingDisk) => Promise<void>): Promise<void> =>
    withFolder(async (dataDir) => {
      const disk = createStallingDisk();
      const options = { dataDir, clock: clockAt(noon), logger: keepingLogger(), files: disk.files, ballastBytes: 100 };
      const journal = await createJournal({ ...options, sync });
      try {
        await work(journal, disk);
      } finally {
        disk.release();
        await journal.close();
      }
    });

  test('the journal switches to asynchronous writes after one slow write', () =>
    withJournal(false, async (journal, disk) => {
      await journal.settle(settledCall());
      await journal.settle(settledCall());
      // Only the first write creates a segment.
      expect(disk.writes).toEqual(['async', 'sync']);
      disk.stall();
      await journal.settle(settledCall());
      expect(disk.writes).toEqual(['async', 'sync', 'sync']);

      let written = 0;
      const waiting = Array.from({ length: 20 }, () => journal.settle(settledCall()).then(() => (written += 1)));
      await until('an asynchronous write began', () => disk.writes.length === 4);
      const opening = journal.open(factsOf(), attemptStart);
      for (let turn = 0; turn < 100; turn += 1) await nextTurn();
      expect([written, disk.writes.at(-1), disk.writes.length]).toEqual([0, 'async', 4]);

      disk.release();
      await Promise.all([...waiting, opening]);
      expect(disk.writes).toEqual(['async', 'sync', 'sync', 'async', 'async']);
    }));

  test('writes large groups of journal records asynchronously', () =>
    withJournal(false, async (journal, disk) => {
      await journal.settle(settledCall());
      await journal.settle(settledCall({ content: withText('x'.repeat(300_000)) }));
      await journal.settle(settledCall());
      expect(disk.writes).toEqual(['async', 'async', 'sync']);
    }));

  test('writes the journal asynchronously if each write has to be flushed to disk', () =>
    withJournal(true, async (journal, disk) => {
      for (let call = 0; call < 3; call += 1) await journal.settle(settledCall());
      expect(disk.writes).toEqual(['async', 'async', 'async']);
    }));
});
