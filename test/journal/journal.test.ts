import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import type { JournalFileSystem } from '../../src/journal/file-system.ts';
import { decodeFrames } from '../../src/journal/frame.ts';
import { createJournal, type Journal, type JournalOptions } from '../../src/journal/journal.ts';
import { type DecodedRecord, decodeRecord } from '../../src/journal/record.ts';
import { until } from '../support/until.ts';
import { type BrokenDisk, createBrokenDisk } from './broken-disk.ts';
import { attemptStart, clockAt, factsOf, keepingLogger, noon, settledCall, withFolder, withText } from './calls.ts';

interface JournalTest {
  journal: Journal;
  disk: BrokenDisk;
  logger: ReturnType<typeof keepingLogger>;
  writes: () => number;
  records(): Promise<DecodedRecord[]>;
}

function withJournal(work: (setup: JournalTest) => Promise<void>, options: Partial<JournalOptions> = {}): Promise<void> {
  return withFolder(async (dataDir) => {
    const disk = createBrokenDisk();
    const logger = keepingLogger();
    let writes = 0;
    const journal = await createJournal({
      dataDir,
      clock: clockAt(noon),
      logger,
      sync: false,
      ballastBytes: 10_000,
      segmentBytes: 20_000,
      retryIntervalMs: 5,
      files: disk.files,
      failpoint: (name) => {
        if (name === 'before write') writes += 1;
      },
      ...options,
    });
    try {
      await work({ journal, disk, logger, writes: () => writes, records: () => readRecords(journal) });
    } finally {
      disk.leave(null);
      disk.fail(null);
      disk.failTruncate(false);
      await journal.close();
    }
  });
}

/** Returns the records in the files, up to the known length of each, like the drain reads them. */
async function readRecords(journal: Journal): Promise<DecodedRecord[]> {
  const records: DecodedRecord[] = [];
  for (const { file, bytes } of journal.segments()) {
    const decoded = decodeFrames((await readFile(file)).subarray(0, bytes));
    expect(decoded.end).toBe('end');
    records.push(...decoded.frames.map(decodeRecord));
  }
  return records;
}

function settledIds(records: readonly DecodedRecord[]): string[] {
  return records.flatMap((record) => (record.kind === 'settled' ? [record.call.metadata.id] : []));
}

describe('writing', () => {
  test("small calls don't wait for a large request body to be written", async () => {
    const disk = createBrokenDisk();
    const written = Promise.withResolvers<void>();
    const writing = Promise.withResolvers<void>();
    const files: JournalFileSystem = {
      ...disk.files,
      async create(file) {
        const real = await disk.files.create(file);
        return {
          ...real,
          async writeAll(buffers, position) {
            if (buffers.some(({ length }) => length >= 1_024 * 1_024)) {
              writing.resolve();
              await written.promise;
            }
            await real.writeAll(buffers, position);
          },
        };
      },
    };
    await withJournal(
      async ({ journal, records }) => {
        const large = settledCall({ content: { request: Buffer.alloc(3_000_000, 'x'), response: null } });
        const small = settledCall();
        await journal.open(large.metadata, attemptStart);
        const settled = journal.settle(large);
        await writing.promise;
        await journal.open(small.metadata, attemptStart);
        await journal.settle(small);
        expect(settledIds(await records())).toEqual([small.metadata.id]);
        const sealed = journal.seal();
        written.resolve();
        await Promise.all([settled, sealed]);
        expect(await records()).toMatchObject([
          { kind: 'opened' },
          { kind: 'opened' },
          { kind: 'settled' },
          { kind: 'settled', call: large },
        ]);
        expect(journal.segments().map(({ sealed }) => sealed)).toEqual([true, true]);
      },
      { files },
    );
  });

  test("the journal keeps each call's request body byte for byte", () =>
    withJournal(async ({ journal, records }) => {
      const call = settledCall({ content: { request: Buffer.from([123, 0, 255, 125]), response: null } });
      const { id } = call.metadata;
      await journal.open(call.metadata, attemptStart);
      expect(journal.state().openCalls).toBe(1);
      await journal.attempt(id, { ...attemptStart, n: 2 });
      await journal.settle(call);
      expect(journal.state()).toMatchObject({ accepting: true, openCalls: 0, parkedCalls: 0, lostCalls: 0 });
      expect(await records()).toEqual([
        { kind: 'opened', metadata: call.metadata, attempts: [attemptStart] },
        { kind: 'attempt', callId: id, attempt: { ...attemptStart, n: 2 } },
        { kind: 'settled', call },
      ]);
    }));

  test("the journal's folder and files are readable only by their owner", () =>
    withJournal(async ({ journal }) => {
      await journal.settle(settledCall());
      expect((await stat(journal.folder)).mode & 0o777).toBe(0o700);
      for (const name of await readdir(journal.folder)) expect((await stat(join(journal.folder, name))).mode & 0o777).toBe(0o600);
    }));

  test('combines the records of one event loop turn into a single write', () =>
    withJournal(async ({ journal, writes, records }) => {
      const calls = Array.from({ length: 10 }, () => settledCall());
      await Promise.all(calls.map((call) => journal.settle(call)));
      expect(writes()).toBe(1);
      expect(settledIds(await records())).toEqual(calls.map((call) => call.metadata.id));
    }));

  test('writes 5,000 calls with bodies to the journal in order', () =>
    withJournal(
      async ({ journal, records, writes }) => {
        const calls = Array.from({ length: 5_000 }, (_value, index) => settledCall({ content: withText(`${index}`.repeat(50)) }));
        for (let at = 0; at < calls.length; at += 100) {
          await Promise.all(calls.slice(at, at + 100).map((call) => journal.settle(call)));
        }
        expect(settledIds(await records())).toEqual(calls.map((call) => call.metadata.id));
        expect(writes()).toBeLessThan(calls.length / 10);
      },
      { segmentBytes: 500_000 },
    ));

  test('with sync, flushes a record to disk before its promise resolves', () =>
    withJournal(
      async ({ journal, records }) => {
        await journal.settle(settledCall());
        expect(await records()).toHaveLength(1);
      },
      { sync: true },
    ));
});

describe('segments', () => {
  test('writes a large record even if other records keep arriving', () =>
    withJournal(
      async ({ journal }) => {
        const others: Promise<void>[] = [];
        let isWritten = false;
        const large = journal.settle(settledCall({ content: withText('x'.repeat(25_000)) })).then(() => {
          isWritten = true;
        });
        while (!isWritten) {
          others.push(journal.settle(settledCall()));
          await new Promise((resolve) => setImmediate(resolve));
        }
        await Promise.all([large, ...others]);
      },
      { sync: true },
    ));

  test('seals a full segment so that it can be deleted', () =>
    withJournal(async ({ journal, records }) => {
      for (let round = 0; round < 3; round += 1) await journal.settle(settledCall({ content: withText('x'.repeat(19_500)) }));
      expect(journal.segments().map(({ number, sealed }) => [number, sealed])).toEqual([
        [1, true],
        [2, true],
        [3, false],
      ]);
      expect(await journal.deleteSegment(1)).toBe(true);
      expect((await readdir(journal.folder)).sort()).toEqual(['owner.lock', 'reserve', 'segment-00000002', 'segment-00000003']);
      expect(settledIds(await records())).toHaveLength(2);
    }));

  test('copies a running call with all its attempts to the newest segment', () =>
    withJournal(async ({ journal, records }) => {
      const metadata = factsOf();
      await journal.open(metadata, attemptStart);
      await journal.attempt(metadata.id, { ...attemptStart, n: 2 });
      await journal.seal();
      expect(await journal.deleteSegment(1)).toBe(true);
      expect(await records()).toEqual([{ kind: 'opened', metadata, attempts: [attemptStart, { ...attemptStart, n: 2 }] }]);
      expect(journal.segments().map(({ number }) => number)).toEqual([2]);
    }));

  test('closing deletes an empty journal folder but keeps a folder with records', () =>
    withFolder(async (dataDir) => {
      const options = { dataDir, clock: clockAt(noon), logger: keepingLogger(), sync: false, ballastBytes: 100 };
      const empty = await createJournal(options);
      const full = await createJournal(options);
      await full.settle(settledCall());
      await empty.close();
      await full.close();
      expect(await readdir(join(dataDir, 'journal'))).toEqual([full.id]);
      expect(await readdir(full.folder)).toEqual(['owner.lock', 'segment-00000001']);
    }));
});

describe('a failing disk', () => {
  test('rejects new calls with budget_unavailable if the disk is full', () =>
    withJournal(async ({ journal, disk, records }) => {
      const open = factsOf();
      await journal.open(open, attemptStart);
      disk.leave(100);
      await expect(journal.open(factsOf(), attemptStart)).rejects.toMatchObject({ code: 'budget_unavailable' });
      expect(await readdir(journal.folder)).not.toContain('reserve');
      await journal.attempt(open.id, { ...attemptStart, n: 2 });
      await journal.settle(settledCall({ metadata: open, content: withText('a prompt') }));
      expect(settledIds(await records())).toEqual([open.id]);
      await expect(journal.open(factsOf(), attemptStart)).rejects.toMatchObject({ code: 'budget_unavailable' });
      expect(journal.state()).toMatchObject({ accepting: false, parkedCalls: 0, openCalls: 0 });
    }));

  test('rejects new calls while the ballast file is being deleted', () => {
    const disk = createBrokenDisk();
    const files: JournalFileSystem = {
      ...disk.files,
      async remove(path) {
        if (path.endsWith('reserve')) await sleep(60);
        await disk.files.remove(path);
      },
    };
    return withJournal(
      async ({ journal, logger }) => {
        disk.leave(500);
        const large = factsOf({ source: 'x'.repeat(1_000) });
        await expect(journal.open(large, attemptStart)).rejects.toMatchObject({ code: 'budget_unavailable' });
        expect(journal.state().accepting).toBe(false);
        expect(logger.lines.map(({ message }) => message)).not.toContain('journal writable again');
        disk.leave(null);
        await until('the journal accepts calls again', () => journal.state().accepting);
        expect(await readdir(journal.folder)).toContain('reserve');
      },
      { files },
    );
  });

  test('recreates the ballast file and accepts calls again once there is disk space', () =>
    withJournal(async ({ journal, disk }) => {
      disk.leave(0);
      await expect(journal.open(factsOf(), attemptStart)).rejects.toMatchObject({ code: 'budget_unavailable' });
      disk.leave(null);
      await until('the journal accepts calls again', () => journal.state().accepting);
      const ballast = await stat(join(journal.folder, 'reserve'));
      expect(ballast.size).toBe(10_000);
      expect(ballast.blocks * 512).toBeGreaterThanOrEqual(10_000);
      await journal.open(factsOf(), attemptStart);
    }));

  test("rejects new calls if there isn't enough disk space for the ballast file", () =>
    withJournal(async ({ journal, disk, logger }) => {
      disk.leave(0);
      await expect(journal.open(factsOf(), attemptStart)).rejects.toMatchObject({ code: 'budget_unavailable' });
      disk.leave(9_000);
      await until('a retry failed', () => logger.lines.some(({ message }) => message === 'journal still not writable'));
      expect(journal.state().accepting).toBe(false);
      expect(await readdir(journal.folder)).not.toContain('reserve.new');
    }));

  test.each(['EIO', 'EACCES', 'ENOSPC'])('removes a partial write from the journal after %s', (code) =>
    withJournal(async ({ journal, disk, records }) => {
      const [before, during, after] = [settledCall(), settledCall({ content: withText('lost in a partial write') }), settledCall()];
      await journal.settle(before);
      disk.fail(code);
      await journal.settle(during);
      expect(journal.state()).toMatchObject({ accepting: false, parkedCalls: 1 });
      disk.fail(null);
      await until('the journal accepts calls again', () => journal.state().accepting);
      await journal.settle(after);
      expect(settledIds(await records())).toEqual([before, during, after].map(({ metadata }) => metadata.id));
      expect(journal.state()).toMatchObject({ parkedCalls: 0, lostCalls: 0 });
    }),
  );

  test("starts a new journal segment if a partial write can't be truncated", () =>
    withJournal(async ({ journal, disk, records }) => {
      const [before, during] = [settledCall(), settledCall()];
      await journal.settle(before);
      disk.failTruncate(true);
      disk.fail('EIO');
      await journal.settle(during);
      disk.fail(null);
      await until('the journal accepts calls again', () => journal.state().accepting);
      expect(settledIds(await records())).toEqual([before.metadata.id, during.metadata.id]);
      expect(journal.segments().length).toBeGreaterThan(1);
    }));

  test('drops the texts of parked calls before it drops whole calls', () =>
    withJournal(
      async ({ journal, disk, logger, records }) => {
        disk.fail('EIO');
        const texts = [settledCall({ content: withText('x'.repeat(6_000)) }), settledCall({ content: withText('y'.repeat(6_000)) })];
        for (const call of texts) await journal.settle(call);
        expect(journal.state()).toMatchObject({ parkedCalls: 2, lostCalls: 0 });
        const further = Array.from({ length: 10 }, () => settledCall());
        for (const call of further) await journal.settle(call);
        const { parkedCalls, lostCalls } = journal.state();
        expect(lostCalls).toBeGreaterThan(0);
        expect(parkedCalls + lostCalls).toBe(12);
        expect(logger.lines.filter(({ message }) => message.startsWith('call record lost'))).toHaveLength(lostCalls);
        expect(logger.lines.find(({ message }) => message.startsWith('call record lost'))?.fields).toMatchObject({
          call: texts[0]?.metadata.id,
          costNanos: 1_000,
        });
        disk.fail(null);
        await until('the journal accepts calls again', () => journal.state().accepting);
        expect(settledIds(await records())).toHaveLength(parkedCalls);
      },
      { parkedBytes: 8_000, retryIntervalMs: 50 },
    ));

  test('the journal starts on a full disk but rejects calls until there is free space', () =>
    withFolder(async (dataDir) => {
      const disk = createBrokenDisk();
      disk.leave(10);
      const options = { dataDir, clock: clockAt(noon), logger: keepingLogger(), sync: false, ballastBytes: 1_000, retryIntervalMs: 5 };
      const journal = await createJournal({ ...options, files: disk.files });
      await expect(journal.open(factsOf(), attemptStart)).rejects.toMatchObject({
        code: 'budget_unavailable',
        message: 'calls cannot be recorded at the moment: the disk is full',
      });
      disk.leave(null);
      await until('the journal accepts calls', () => journal.state().accepting);
      await journal.close();
    }));

  test('the journal accepts calls at startup only if 20 MiB of disk space is free', () =>
    withFolder(async (dataDir) => {
      const disk = createBrokenDisk();
      const logger = keepingLogger();
      const start = () => createJournal({ dataDir, clock: clockAt(noon), logger, sync: false, files: disk.files });
      disk.leave(20 * 1024 ** 2);
      const journal = await start();
      expect(journal.state()).toMatchObject({ accepting: true, obstacle: null });
      await journal.open(factsOf(), attemptStart);
      await journal.close();
      disk.leave(19 * 1024 ** 2);
      const starved = await start();
      expect(starved.state()).toMatchObject({
        accepting: false,
        obstacle: { summary: 'the disk is full', detail: 'the disk has 19.0 MiB free, but the journal needs 20.0 MiB' },
      });
      await starved.close();
    }));
});
