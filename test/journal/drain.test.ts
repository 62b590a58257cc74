import { readdir, readFile, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import type { Database } from '../../src/db/database.ts';
import { createDrain, type Drain } from '../../src/journal/drain.ts';
import type { Failpoint, HitFailpoint } from '../../src/journal/failpoints.ts';
import { createJournal, type Journal } from '../../src/journal/journal.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { describeDatabases } from '../db/databases.ts';
import { until } from '../support/until.ts';
import {
  attemptStart,
  clockAt,
  connectionError,
  emptyDatabase,
  factsOf,
  keepingLogger,
  noon,
  settledCall,
  withFolder,
  withText,
} from './calls.ts';
import { idsOf, withDrain } from './drain-helper.ts';

const fromDisk = { recentBytes: 0 };

/** Counts the windows that the drain reads from disk. */
function countReads(): { count: number; failpoint: HitFailpoint } {
  const reads = {
    count: 0,
    failpoint: (name: Failpoint): void => {
      if (name === 'before read') reads.count += 1;
    },
  };
  return reads;
}

describe('the drain', () => {
  test.each([
    ['memory', 16_000, 0],
    ['disk', 0, 1],
  ])('stores a call from %s unchanged', (_source, recentBytes, expectedReads) => {
    const reads = countReads();
    return withDrain(
      async ({ journal, drain, batches }) => {
        drain.start();
        const call = settledCall({ content: withText('{"messages":[]}') });
        await journal.open(call.metadata, attemptStart);
        await journal.settle(call);
        await until('the call is stored', () => batches.length > 0);
        expect(batches).toEqual([[call]]);
        expect(reads.count).toBeGreaterThanOrEqual(expectedReads);
        if (expectedReads === 0) expect(reads.count).toBe(0);
      },
      { recentBytes, failpoint: reads.failpoint },
    );
  });

  test("reads calls from disk if they exceed the drain's memory limit", () => {
    const reads = countReads();
    return withDrain(
      async ({ journal, drain, batches }) => {
        const calls = Array.from({ length: 300 }, () => settledCall());
        // Groups of ten records. The first ones fit into memory, and so do later ones once these are stored.
        const settle = async (from: number, to: number): Promise<void> => {
          for (let at = from; at < to; at += 10)
            await Promise.all(calls.slice(at, Math.min(at + 10, to)).map((call) => journal.settle(call)));
        };
        await settle(0, 100);
        await drain.waitUntilDrained();
        expect(reads.count).toBe(1);
        await settle(100, 110);
        await drain.waitUntilDrained();
        expect(reads.count).toBe(1);
        await settle(110, 300);
        await drain.waitUntilDrained();
        expect(reads.count).toBe(2);
        expect(idsOf(batches)).toEqual(calls.map(({ metadata }) => metadata.id));
      },
      { recentBytes: 50_000, segmentBytes: 10_000_000, intervalMs: 60_000, failpoint: reads.failpoint },
    );
  });

  test('waitUntilDrained() drains immediately instead of waiting for the interval', () =>
    withDrain(
      async ({ journal, drain, batches }) => {
        const calls = Array.from({ length: 1_200 }, () => settledCall());
        await Promise.all(calls.map((call) => journal.settle(call)));
        await drain.waitUntilDrained();
        expect(idsOf(batches)).toEqual(calls.map(({ metadata }) => metadata.id));
        expect(Math.max(...batches.map((batch) => batch.length))).toBe(500);
      },
      { intervalMs: 60_000, segmentBytes: 10_000_000 },
    ));

  test.each([
    ['500 calls', 500, 10],
    ['4 MiB', 5, 1_000_000],
  ])('stores a full batch of %s immediately, and a smaller one when the drain is woken', (_size, count, bytes) =>
    withDrain(
      async ({ journal, drain, batches }) => {
        drain.start();
        const calls = Array.from({ length: count }, () => settledCall({ content: withText('x'.repeat(bytes)) }));
        await Promise.all(calls.map((call) => journal.settle(call)));
        await until('the batch is stored', () => idsOf(batches).length === count);
        await journal.settle(settledCall());
        drain.wake();
        await until('the last call is stored', () => idsOf(batches).length === count + 1);
      },
      { intervalMs: 60_000, segmentBytes: 10_000_000 },
    ),
  );

  test("waitUntilDrained() for one project doesn't wait for other projects", () =>
    withDrain(
      async ({ journal, drain, batches }) => {
        const [busy, reader] = ['01900000-0000-7000-8000-00000000000a', '01900000-0000-7000-8000-00000000000b'];
        await journal.settle(settledCall({ metadata: { projectId: busy } }));
        await drain.waitUntilDrained({ projectId: reader });
        await drain.waitUntilDrained({ projectId: reader });
        expect(batches).toEqual([]);
        await Promise.all([reader, busy].map((projectId) => journal.settle(settledCall({ metadata: { projectId } }))));
        await drain.waitUntilDrained({ projectId: reader });
        expect(batches.map((batch) => batch.length)).toEqual([3]);
        await journal.settle(settledCall({ metadata: { projectId: busy } }));
        await drain.waitUntilDrained({ projectId: reader });
        expect(batches).toHaveLength(1);
      },
      { intervalMs: 60_000 },
    ));

  test('waitUntilDrained() times out while the database is unavailable', () =>
    withDrain(async ({ journal, drain, database }) => {
      database.fail(connectionError());
      await journal.settle(settledCall());
      await drain.waitUntilDrained({ timeoutMs: 20 });
      expect(drain.counts()).toMatchObject({ stored: 0 });
      expect(drain.counts().backlogBytes).toBeGreaterThan(0);
      database.fail(null);
    }));

  test('deletes a full journal segment once its calls are stored', () =>
    withDrain(async ({ journal, drain }) => {
      drain.start();
      const open = factsOf();
      await journal.open(open, attemptStart);
      for (let round = 0; round < 20; round += 1) await journal.settle(settledCall({ content: withText('x'.repeat(10_000)) }));
      await drain.waitUntilDrained();
      await until('stored segments are deleted', () => journal.segments().length === 1);
      expect(journal.segments()[0]?.number).toBeGreaterThan(3);
      expect(journal.state().openCalls).toBe(1);
      expect((await readFile(journal.segments()[0]?.file ?? '')).toString('latin1')).toContain(open.id);
      await journal.settle(settledCall({ metadata: open }));
    }));

  test('deletes the last segment of an idle journal after its calls are stored', () =>
    withDrain(async ({ journal, drain, clock }) => {
      drain.start();
      await journal.settle(settledCall({ content: withText('private') }));
      await drain.waitUntilDrained();
      clock.move(10_001);
      await journal.settle(settledCall());
      await until('the last segment is deleted', async () => (await readdir(journal.folder)).every((name) => !name.startsWith('segment')));
    }));

  test('stop() stores the remaining calls and deletes all journal segments', () =>
    withDrain(async ({ journal, drain, batches }) => {
      await journal.settle(settledCall());
      await drain.stop();
      expect(idsOf(batches)).toHaveLength(1);
      expect(journal.segments()).toEqual([]);
    }));

  test('stop() times out if the database hangs', () =>
    withDrain(
      async ({ journal, drain }) => {
        await journal.settle(settledCall());
        await drain.stop(20);
        expect(drain.counts().stored).toBe(0);
      },
      { database: { ...emptyDatabase(), transaction: () => new Promise(() => {}) } },
    ));

  test.each([
    ['memory', 16_000_000],
    ['disk', 0],
  ])('keeps unstored calls on disk if stop() interrupts the drain of a backlog in %s', async (_source, recentBytes) => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const calls = Array.from({ length: 12 }, () => settledCall({ content: withText('x'.repeat(20_000)) }));
    await withDrain(
      async ({ journal, drain }) => {
        for (const call of calls) await journal.settle(call);
        expect(journal.segments().length).toBeGreaterThan(2);
        await drain.stop(20);
        release();
        // Resolves once the run in progress has ended.
        await drain.stop();
        const stored = drain.counts().stored;
        expect(stored).toBeLessThan(calls.length);
        const onDisk = (await Promise.all(journal.segments().map(({ file }) => readFile(file, 'latin1')))).join('');
        expect(calls.slice(stored).filter(({ metadata }) => !onDisk.includes(metadata.id))).toEqual([]);
      },
      { recentBytes, store: () => released },
    );
  });

  test('drains a journal record that is larger than the read window', () =>
    withDrain(async ({ journal, drain, batches }) => {
      const call = settledCall({ content: withText('x'.repeat(6 * 1024 * 1024)) });
      await journal.settle(settledCall());
      await journal.settle(call);
      await drain.waitUntilDrained({ timeoutMs: 60_000 });
      expect(batches.flat().at(-1)?.content?.request).toHaveLength(6 * 1024 * 1024);
    }, fromDisk));

  test('stores a call once if the journal contains it twice', () =>
    withDrain(async ({ journal, drain, batches }) => {
      const call = settledCall();
      await Promise.all([journal.settle(call), journal.settle(call)]);
      await drain.waitUntilDrained();
      expect(batches).toEqual([[call]]);
    }));

  test('copies a damaged segment to the quarantine and continues with the next one', () =>
    withDrain(async ({ dataDir, journal, drain, batches, logger }) => {
      const [before, damaged, after] = [settledCall(), settledCall(), settledCall()];
      await journal.settle(before);
      const good = journal.segments()[0]?.bytes ?? 0;
      await journal.settle(damaged);
      await journal.seal();
      await journal.settle(after);
      await truncate(journal.segments()[0]?.file ?? '', good + 10);
      await drain.waitUntilDrained();
      expect(idsOf(batches)).toEqual([before, after].map(({ metadata }) => metadata.id));
      expect(await readdir(join(dataDir, 'journal', 'quarantine'))).toEqual([`${journal.id}-1.segment`]);
      expect(logger.lines.map(({ level }) => level)).toContain('error');
    }, fromDisk));
});

describe('during a database outage', () => {
  test.each([
    ['in memory', 16_000_000],
    ['in memory and on disk', 100_000],
    ['on disk', 0],
  ])('after an outage, stores each call of a backlog %s exactly once', (_place, recentBytes) =>
    withDrain(
      async ({ journal, drain, database, batches, logger }) => {
        database.fail(connectionError());
        drain.start();
        const calls = Array.from({ length: 2_000 }, () => settledCall({ content: withText('y'.repeat(200)) }));
        await Promise.all(calls.map((call) => journal.settle(call)));
        await until('the outage is logged', () => logger.lines.some(({ level }) => level === 'warn'));
        expect(journal.segments().length).toBeGreaterThan(5);
        database.fail(null);
        await until('all calls are stored', () => idsOf(batches).length === calls.length);
        expect(idsOf(batches)).toEqual(calls.map(({ metadata }) => metadata.id));
        expect(logger.lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
        expect(Math.max(...batches.map((batch) => batch.length))).toBeLessThanOrEqual(500);
        expect(drain.counts()).toMatchObject({ quarantined: 0, rejected: 0 });
      },
      { recentBytes },
    ),
  );

  test('calls onStored once per call', () => {
    const reported: SettledCall[][] = [];
    let batchCount = 0;
    return withDrain(
      async ({ journal, drain }) => {
        const calls = Array.from({ length: 1_200 }, () => settledCall());
        await Promise.all(calls.map((call) => journal.settle(call)));
        drain.start();
        await until('all calls are stored', () => idsOf(reported).length >= calls.length);
        await drain.waitUntilDrained();
        expect(idsOf(reported)).toEqual(calls.map(({ metadata }) => metadata.id));
        expect(drain.counts()).toMatchObject({ stored: 1_200 });
        expect(batchCount).toBeGreaterThan(3);
      },
      {
        segmentBytes: 10_000_000,
        onStored: (calls) => void reported.push([...calls]),
        async store() {
          batchCount += 1;
          if (batchCount === 2) throw connectionError();
        },
      },
    );
  });

  test('prepares the database before the first batch and then once a day', () => {
    let runs = 0;
    let isUnavailable = true;
    const prepare = async (): Promise<void> => {
      runs += 1;
      if (isUnavailable) throw connectionError();
    };
    return withDrain(
      async ({ journal, drain, clock, batches }) => {
        drain.start();
        await until('prepare ran', () => runs > 0);
        isUnavailable = false;
        await journal.settle(settledCall());
        await until('the call is stored', () => batches.length === 1);
        const before = runs;
        await journal.settle(settledCall());
        await drain.waitUntilDrained();
        expect(runs).toBe(before);
        clock.move(86_400_000);
        await journal.settle(settledCall());
        await drain.waitUntilDrained();
        expect(runs).toBe(before + 1);
      },
      { prepare },
    );
  });
});

test("stores calls even if new table partitions can't be created", () => {
  const prepare = async (): Promise<void> => {
    throw Object.assign(new Error('permission denied for schema public'), { code: '42501' });
  };
  return withDrain(
    async ({ journal, drain, batches, logger }) => {
      await journal.settle(settledCall());
      await drain.waitUntilDrained();
      expect(batches).toHaveLength(1);
      expect(logger.lines.map(({ level }) => level)).toEqual(['error']);
    },
    { prepare },
  );
});

describeDatabases('the journal with real tables', (database) => {
  const withStore = (work: (setup: { journal: Journal; drain: Drain }) => Promise<void>): Promise<void> =>
    withFolder(async (dataDir) => {
      const [clock, logger] = [clockAt(noon), keepingLogger()];
      const journal = await createJournal({ dataDir, clock, logger, sync: false, ballastBytes: 100 });
      const drain = createDrain({ dataDir, journal, database: database(), store: storeCalls, clock, logger });
      await work({ journal, drain }).finally(() => drain.stop());
      await journal.close();
    });

  test('stores each call once together with its attempts', () =>
    withStore(async ({ journal, drain }) => {
      const metadata = factsOf();
      const odd = settledCall({ metadata: { ...metadata, source: 'a\0b\ud800', plan: [{ model: 'x\0\udfff', skipped: 'no \0' }] } });
      const calls = [odd, ...Array.from({ length: 700 }, () => settledCall())];
      await Promise.all(calls.map((call) => journal.settle(call)));
      await drain.waitUntilDrained({ timeoutMs: 60_000 });
      expect(await countRows(database(), calls)).toEqual({ calls: 701, attempts: 701, cost: 701_000 });
      expect(drain.counts()).toMatchObject({ stored: 701, quarantined: 0 });
    }));

  test('stores the other calls if the database rejects one', () =>
    withStore(async ({ journal, drain }) => {
      const good = [settledCall(), settledCall()];
      const bad = settledCall({ metadata: { keyId: 'not a uuid' } });
      await Promise.all([good[0], bad, good[1]].map((call) => call && journal.settle(call)));
      await drain.waitUntilDrained({ timeoutMs: 60_000 });
      expect(await countRows(database(), good)).toMatchObject({ calls: 2 });
      expect(drain.counts()).toMatchObject({ stored: 2, quarantined: 1, rejected: 1 });
    }));
});

async function countRows(database: Database, calls: readonly SettledCall[]): Promise<unknown> {
  const [row] = await database.query(
    `select (select count(*) from calls where id = any ($1::uuid[])) as calls,
            (select count(*) from attempts where call_id = any ($1::uuid[])) as attempts,
            (select sum(cost_nanos)::bigint from calls where id = any ($1::uuid[])) as cost`,
    [calls.map(({ metadata }) => metadata.id)],
  );
  return row;
}
