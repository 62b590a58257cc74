import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import type { JournalFileSystem } from '../../src/journal/file-system.ts';
import { decodeFrames } from '../../src/journal/frame.ts';
import { createJournal, type Journal, type JournalOptions } from '../../src/journal/journal.ts';
import { type DecodedRecord, decodeRecord } from '../../src/journal/record.ts';
import { type BrokenDisk, createBrokenDisk } from './broken-disk.ts';
import { attemptStart, clockAt, factsOf, keepingLogger, noon, settledCall, until, withFolder, withText } from './calls.ts';

interface Lent {
  journal: Journal;
  disk: BrokenDisk;
  logger: ReturnType<typeof keepingLogger>;
  writes: () => number;
  records(): Promise<DecodedRecord[]>;
}

function withJournal(work: (lent: Lent) => Promise<void>, options: Partial<JournalOptions> = {}): Promise<void> {
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

/** What the files hold, up to the known length of each, as the drain sees it. */
async function readRecords(journal: Journal): Promise<DecodedRecord[]> {
  const records: DecodedRecord[] = [];
  for (const { file, bytes } of journal.segments()) {
    const run = decodeFrames((await readFile(file)).subarray(0, bytes));
    expect(run.end).toBe('end');
    records.push(...run.frames.map(decodeRecord));
  }
  return records;
}

function settledIds(records: readonly DecodedRecord[]): string[] {
  return records.flatMap((record) => (record.kind === 'settled' ? [record.call.facts.id] : []));
}

describe('writing', () => {
  test('a call stands in the journal from before its first attempt to its end, its body byte for byte', () =>
    withJournal(async ({ journal, records }) => {
      const call = settledCall({ content: { request: Buffer.from([123, 0, 255, 125]), answer: null } });
      const { id } = call.facts;
      await journal.open(call.facts, attemptStart);
      expect(journal.state().openCalls).toBe(1);
      await journal.attempt(id, { ...attemptStart, n: 2 });
      await journal.settle(call);
      expect(journal.state()).toMatchObject({ accepting: true, openCalls: 0, parkedCalls: 0, lostCalls: 0 });
      expect(await records()).toEqual([
        { kind: 'opened', facts: call.facts, attempts: [attemptStart] },
        { kind: 'attempt', callId: id, attempt: { ...attemptStart, n: 2 } },
        { kind: 'settled', call },
      ]);
    }));

  test('folder and files are private', () =>
    withJournal(async ({ journal }) => {
      await journal.settle(settledCall());
      expect((await stat(journal.folder)).mode & 0o777).toBe(0o700);
      for (const name of await readdir(journal.folder)) expect((await stat(join(journal.folder, name))).mode & 0o777).toBe(0o600);
    }));

  test('records that are ready in the same turn go in one write', () =>
    withJournal(async ({ journal, writes, records }) => {
      const calls = Array.from({ length: 10 }, () => settledCall());
      await Promise.all(calls.map((call) => journal.settle(call)));
      expect(writes()).toBe(1);
      expect(settledIds(await records())).toEqual(calls.map((call) => call.facts.id));
    }));

  test('five thousand calls with bodies come out in the order in which they were handed in', () =>
    withJournal(
      async ({ journal, records, writes }) => {
        const calls = Array.from({ length: 5_000 }, (_value, index) => settledCall({ content: withText(`${index}`.repeat(50)) }));
        for (let at = 0; at < calls.length; at += 100) {
          await Promise.all(calls.slice(at, at + 100).map((call) => journal.settle(call)));
        }
        expect(settledIds(await records())).toEqual(calls.map((call) => call.facts.id));
        expect(writes()).toBeLessThan(calls.length / 10);
      },
      { segmentBytes: 500_000 },
    ));

  test('with sync on, every write is flushed before anybody is told', () =>
    withJournal(
      async ({ journal, records }) => {
        await journal.settle(settledCall());
        expect(await records()).toHaveLength(1);
      },
      { sync: true },
    ));
});

describe('segments', () => {
  test('a full segment is sealed, and goes when it is discarded', () =>
    withJournal(async ({ journal, records }) => {
      for (let round = 0; round < 3; round += 1) await journal.settle(settledCall({ content: withText('x'.repeat(25_000)) }));
      expect(journal.segments().map(({ number, sealed }) => [number, sealed])).toEqual([
        [1, true],
        [2, true],
        [3, false],
      ]);
      expect(await journal.deleteSegment(1)).toBe(true);
      expect((await readdir(journal.folder)).sort()).toEqual(['owner.lock', 'reserve', 'segment-00000002', 'segment-00000003']);
      expect(settledIds(await records())).toHaveLength(2);
    }));

  test('a call that is still open is carried over to the newest segment, with all its attempts', () =>
    withJournal(async ({ journal, records }) => {
      const facts = factsOf();
      await journal.open(facts, attemptStart);
      await journal.attempt(facts.id, { ...attemptStart, n: 2 });
      await journal.seal();
      expect(await journal.deleteSegment(1)).toBe(true);
      expect(await records()).toEqual([{ kind: 'opened', facts, attempts: [attemptStart, { ...attemptStart, n: 2 }] }]);
      expect(journal.segments().map(({ number }) => number)).toEqual([2]);
    }));

  test('a folder with nothing left in it goes with its journal; one with records stays', () =>
    withFolder(async (dataDir) => {
      const options = { dataDir, clock: clockAt(noon), logger: keepingLogger(), sync: false, reserveBytes: 100 };
      const empty = await createJournal(options);
      const full = await createJournal(options);
      await full.settle(settledCall());
      await empty.close();
      await full.close();
      expect(await readdir(join(dataDir, 'journal'))).toEqual([full.id]);
      expect(await readdir(full.folder)).toEqual(['owner.lock', 'segment-00000001']);
    }));
});

describe('a disk that fails', () => {
  test('budget_unavailable when the disk is full; calls that are open settle in the room of the reserve', () =>
    withJournal(async ({ journal, disk, records }) => {
      const open = factsOf();
      await journal.open(open, attemptStart);
      disk.leave(100);
      await expect(journal.open(factsOf(), attemptStart)).rejects.toMatchObject({ code: 'budget_unavailable' });
      expect(await readdir(journal.folder)).not.toContain('reserve');
      await journal.attempt(open.id, { ...attemptStart, n: 2 });
      await journal.settle(settledCall({ facts: open, content: withText('a prompt') }));
      expect(settledIds(await records())).toEqual([open.id]);
      await expect(journal.open(factsOf(), attemptStart)).rejects.toMatchObject({ code: 'budget_unavailable' });
      expect(journal.state()).toMatchObject({ accepting: false, parkedCalls: 0, openCalls: 0 });
    }));

  test('calls stay refused while the reserve is given up, however long its removal takes', () => {
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
        expect(logger.lines.map(({ message }) => message)).not.toContain('the journal can be written again');
        disk.leave(null);
        await until(() => journal.state().accepting, 'the journal accepts calls again');
        expect(await readdir(journal.folder)).toContain('reserve');
      },
      { files },
    );
  });

  test('when there is room again the reserve is rebuilt, with real bytes, and calls are taken', () =>
    withJournal(async ({ journal, disk }) => {
      disk.leave(0);
      await expect(journal.open(factsOf(), attemptStart)).rejects.toMatchObject({ code: 'budget_unavailable' });
      disk.leave(null);
      await until(() => journal.state().accepting, 'the journal accepts calls again');
      const reserve = await stat(join(journal.folder, 'reserve'));
      expect(reserve.size).toBe(10_000);
      expect(reserve.blocks * 512).toBeGreaterThanOrEqual(10_000);
      await journal.open(factsOf(), attemptStart);
    }));

  test('too little room for the reserve: calls stay refused, and trying takes nothing from those who settle', () =>
    withJournal(async ({ journal, disk, logger }) => {
      disk.leave(0);
      await expect(journal.open(factsOf(), attemptStart)).rejects.toMatchObject({ code: 'budget_unavailable' });
      disk.leave(9_000);
      await until(() => logger.lines.some(({ message }) => message.includes('still cannot')), 'a repair was tried');
      expect(journal.state().accepting).toBe(false);
      expect(await readdir(journal.folder)).not.toContain('reserve.new');
    }));

  test.each(['EIO', 'EACCES', 'ENOSPC'])('%s: half a write leaves no trace in front of what is written later', (code) =>
    withJournal(async ({ journal, disk, records }) => {
      const [before, during, after] = [settledCall(), settledCall({ content: withText('lost in a half write') }), settledCall()];
      await journal.settle(before);
      disk.fail(code);
      await journal.settle(during);
      expect(journal.state()).toMatchObject({ accepting: false, parkedCalls: 1 });
      disk.fail(null);
      await until(() => journal.state().accepting, 'the journal accepts calls again');
      await journal.settle(after);
      expect(settledIds(await records())).toEqual([before, during, after].map(({ facts }) => facts.id));
      expect(journal.state()).toMatchObject({ parkedCalls: 0, lostCalls: 0 });
    }),
  );

  test('half a write that cannot even be cut back ends its segment; the next record begins a new one', () =>
    withJournal(async ({ journal, disk, records }) => {
      const [before, during] = [settledCall(), settledCall()];
      await journal.settle(before);
      disk.failTruncate(true);
      disk.fail('EIO');
      await journal.settle(during);
      disk.fail(null);
      await until(() => journal.state().accepting, 'the journal accepts calls again');
      expect(settledIds(await records())).toEqual([before.facts.id, during.facts.id]);
      expect(journal.segments().length).toBeGreaterThan(1);
    }));

  test('waiting calls give up their texts before any of them is lost, and a lost one leaves its money in the log', () =>
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
        expect(logger.lines.filter(({ message }) => message.startsWith('a settled call is lost'))).toHaveLength(lostCalls);
        expect(logger.lines.find(({ message }) => message.startsWith('a settled call is lost'))?.fields).toMatchObject({
          call: texts[0]?.facts.id,
          costNanos: 1_000,
        });
        disk.fail(null);
        await until(() => journal.state().accepting, 'the journal accepts calls again');
        expect(settledIds(await records())).toHaveLength(parkedCalls);
      },
      { parkedBytes: 8_000, retryIntervalMs: 50 },
    ));

  test('a start on a full disk refuses calls until there is room', () =>
    withFolder(async (dataDir) => {
      const disk = createBrokenDisk();
      disk.leave(10);
      const options = { dataDir, clock: clockAt(noon), logger: keepingLogger(), sync: false, reserveBytes: 1_000, retryMs: 5 };
      const journal = await createJournal({ ...options, files: disk.files });
      await expect(journal.open(factsOf(), attemptStart)).rejects.toMatchObject({ code: 'budget_unavailable' });
      disk.leave(null);
      await until(() => journal.state().accepting, 'the journal accepts calls');
      await journal.close();
    }));
});
