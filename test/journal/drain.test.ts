import { readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import type { Database } from '../../src/db/database.ts';
import { isDataFault } from '../../src/journal/batch-store.ts';
import { createDrain, type Drain, type DrainOptions } from '../../src/journal/drain.ts';
import { createJournal, type Journal } from '../../src/journal/journal.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { describeDatabases } from '../db/databases.ts';
import {
  attemptStart,
  clockAt,
  connectionFault,
  emptyDatabase,
  factsOf,
  keepingLogger,
  noon,
  settledCall,
  until,
  withFolder,
  withText,
} from './calls.ts';

interface Lent {
  dataDir: string;
  journal: Journal;
  drain: Drain;
  database: ReturnType<typeof emptyDatabase>;
  clock: ReturnType<typeof clockAt>;
  logger: ReturnType<typeof keepingLogger>;
  /** Every batch that was stored, in order. */
  batches: SettledCall[][];
}

type LentOptions = Partial<Omit<DrainOptions, 'store'>> & { refuses?: (call: SettledCall) => boolean; segmentBytes?: number };

/** A drain into memory; `refuses` says which calls the database does not take. */
function withDrain(work: (lent: Lent) => Promise<void>, { refuses = () => false, segmentBytes = 50_000, ...options }: LentOptions = {}) {
  return withFolder(async (dataDir) => {
    const [clock, logger, database] = [clockAt(noon), keepingLogger(), emptyDatabase()];
    const journal = await createJournal({ dataDir, clock, logger, sync: false, reserveBytes: 100, segmentBytes });
    const batches: SettledCall[][] = [];
    const drain = createDrain({
      dataDir,
      journal,
      database,
      clock,
      logger,
      intervalMs: 5,
      async store(_tx, calls) {
        if (calls.some(refuses)) throw Object.assign(new Error('invalid input'), { code: '22P02' });
        batches.push([...calls]);
      },
      ...options,
    });
    try {
      await work({ dataDir, journal, drain, database, clock, logger, batches });
    } finally {
      await drain.stop(1_000);
      await journal.close();
    }
  });
}

const idsOf = (batches: readonly (readonly SettledCall[])[]): string[] => batches.flat().map(({ facts }) => facts.id);

describe('draining', () => {
  test('what was written reaches the store by itself, as it was', () =>
    withDrain(async ({ journal, drain, batches }) => {
      drain.start();
      const call = settledCall({ content: withText('{"messages":[]}') });
      await journal.settle(call);
      await until(() => batches.length > 0, 'the call is stored');
      expect(batches).toEqual([[call]]);
    }));

  test('who waits for drained() then finds all that was written before, without waiting for the interval', () =>
    withDrain(
      async ({ journal, drain, batches }) => {
        const calls = Array.from({ length: 1_200 }, () => settledCall());
        await Promise.all(calls.map((call) => journal.settle(call)));
        await drain.drained();
        expect(idsOf(batches)).toEqual(calls.map(({ facts }) => facts.id));
        expect(Math.max(...batches.map((batch) => batch.length))).toBe(500);
      },
      { intervalMs: 60_000, segmentBytes: 10_000_000 },
    ));

  test('drained() gives up after its time when the database is away', () =>
    withDrain(async ({ journal, drain, database }) => {
      database.fail(connectionFault());
      await journal.settle(settledCall());
      await drain.drained(20);
      expect(drain.counts()).toMatchObject({ stored: 0 });
      expect(drain.counts().backlogBytes).toBeGreaterThan(0);
      database.fail(null);
    }));

  test('a segment is deleted when it is full and stored; calls that are open stay in the journal', () =>
    withDrain(async ({ journal, drain }) => {
      drain.start();
      const open = factsOf();
      await journal.open(open, attemptStart);
      for (let round = 0; round < 20; round += 1) await journal.settle(settledCall({ content: withText('x'.repeat(10_000)) }));
      await drain.drained();
      await until(() => journal.segments().length === 1, 'drained segments are gone');
      expect(journal.segments()[0]?.number).toBeGreaterThan(3);
      expect(journal.state().openCalls).toBe(1);
      expect((await readFile(journal.segments()[0]?.file ?? '')).toString('latin1')).toContain(open.id);
      await journal.settle(settledCall({ facts: open }));
    }));

  test('an idle journal gives up its last segment, so that texts do not stay in it', () =>
    withDrain(async ({ journal, drain, clock }) => {
      drain.start();
      await journal.settle(settledCall({ content: withText('private') }));
      await drain.drained();
      clock.move(10_001);
      await journal.settle(settledCall());
      await until(async () => (await readdir(journal.folder)).every((name) => !name.startsWith('segment')), 'the last segment is gone');
    }));

  test('stop() drains what is left and leaves no segment behind', () =>
    withDrain(async ({ journal, drain, batches }) => {
      await journal.settle(settledCall());
      await drain.stop();
      expect(idsOf(batches)).toHaveLength(1);
      expect(journal.segments()).toEqual([]);
    }));

  test('stop() ends after its limit when the database hangs', () =>
    withDrain(
      async ({ journal, drain }) => {
        await journal.settle(settledCall());
        await drain.stop(20);
        expect(drain.counts().stored).toBe(0);
      },
      { database: { ...emptyDatabase(), transaction: () => new Promise(() => {}) } },
    ));

  test('one record larger than a window is read whole', () =>
    withDrain(async ({ journal, drain, batches }) => {
      const call = settledCall({ content: withText('x'.repeat(6 * 1024 * 1024)) });
      await journal.settle(settledCall());
      await journal.settle(call);
      await drain.drained(5_000);
      expect(batches.flat().at(-1)?.content?.request).toHaveLength(6 * 1024 * 1024);
    }));

  test('a record that stands twice in the journal is stored once in its batch', () =>
    withDrain(async ({ journal, drain, batches }) => {
      const call = settledCall();
      await Promise.all([journal.settle(call), journal.settle(call)]);
      await drain.drained();
      expect(batches).toEqual([[call]]);
    }));

  test('a damaged segment is kept in the quarantine, and the drain goes on behind it', () =>
    withDrain(async ({ dataDir, journal, drain, batches, logger }) => {
      const [before, damaged, after] = [settledCall(), settledCall(), settledCall()];
      await journal.settle(before);
      const good = journal.segments()[0]?.bytes ?? 0;
      await journal.settle(damaged);
      await journal.seal();
      await journal.settle(after);
      await truncate(journal.segments()[0]?.file ?? '', good + 10);
      await drain.drained();
      expect(idsOf(batches)).toEqual([before, after].map(({ facts }) => facts.id));
      expect(await readdir(join(dataDir, 'journal', 'quarantine'))).toEqual([`${journal.id}-1.segment`]);
      expect(logger.lines.map(({ level }) => level)).toContain('error');
    }));
});

describe('a database that is away', () => {
  test('nothing is lost or stored twice, and the backlog is worked off in bounded batches', () =>
    withDrain(async ({ journal, drain, database, batches, logger }) => {
      database.fail(connectionFault());
      drain.start();
      const calls = Array.from({ length: 2_000 }, () => settledCall({ content: withText('y'.repeat(200)) }));
      await Promise.all(calls.map((call) => journal.settle(call)));
      await until(() => logger.lines.some(({ level }) => level === 'warn'), 'the outage is noticed');
      expect(journal.segments().length).toBeGreaterThan(5);
      database.fail(null);
      await until(() => idsOf(batches).length === calls.length, 'all calls are stored');
      expect(idsOf(batches)).toEqual(calls.map(({ facts }) => facts.id));
      expect(logger.lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
      expect(drain.counts()).toMatchObject({ quarantined: 0, refused: 0 });
    }));

  test('partitions are asked for before the first batch and again after a day, and an outage then is like any other', () => {
    let asked = 0;
    let isAway = true;
    const prepare = async (): Promise<void> => {
      asked += 1;
      if (isAway) throw connectionFault();
    };
    return withDrain(
      async ({ journal, drain, clock, batches }) => {
        drain.start();
        await until(() => asked > 0, 'partitions were asked for');
        isAway = false;
        await journal.settle(settledCall());
        await until(() => batches.length === 1, 'the call is stored');
        const before = asked;
        await journal.settle(settledCall());
        await drain.drained();
        expect(asked).toBe(before);
        clock.move(86_400_000);
        await journal.settle(settledCall());
        await drain.drained();
        expect(asked).toBe(before + 1);
      },
      { prepare },
    );
  });
});

describe('a record that the database refuses', () => {
  const isPoison = (call: SettledCall): boolean => call.content?.request.includes('poison') ?? false;

  test('stands alone after halving: its money is stored without text, the record goes to the quarantine, all others are stored', () =>
    withDrain(
      async ({ dataDir, journal, drain, batches }) => {
        const calls = Array.from({ length: 300 }, (_value, index) => settledCall({ content: withText(index === 77 ? 'poison' : 'good') }));
        const poison = calls[77];
        await Promise.all(calls.map((call) => journal.settle(call)));
        await drain.drained();
        expect(idsOf(batches).sort()).toEqual(calls.map(({ facts }) => facts.id).sort());
        const stored = batches.flat().find(({ facts }) => facts.id === poison?.facts.id);
        expect(stored).toEqual({ ...poison, content: null });
        expect(batches.flat().filter(({ content }) => content === null)).toHaveLength(1);
        expect(drain.counts()).toMatchObject({ stored: 300, quarantined: 1, refused: 0 });
        const quarantine = join(dataDir, 'journal', 'quarantine');
        expect(await readdir(quarantine)).toEqual([`${poison?.facts.id}.record`]);
        expect((await readFile(join(quarantine, `${poison?.facts.id}.record`))).includes('poison')).toBe(true);
      },
      { refuses: isPoison },
    ));

  test('is stored without what its caller wrote when even that is refused', () =>
    withDrain(
      async ({ journal, drain, batches }) => {
        const facts = factsOf();
        const call = settledCall({ facts: { ...facts, correlation: { ...facts.correlation, taskId: 'poison' } } });
        await journal.settle(call);
        await drain.drained();
        expect(batches.flat()).toEqual([{ ...call, facts: { ...facts, plan: [] } }]);
        expect(drain.counts()).toMatchObject({ stored: 1, quarantined: 1, refused: 0 });
      },
      { refuses: ({ facts }) => facts.correlation.taskId === 'poison' },
    ));

  test('is left to the quarantine, and its money to the log, when nothing of it is taken', () =>
    withDrain(
      async ({ journal, drain, batches, logger }) => {
        const [bad, good] = [settledCall({ facts: { keyId: 'no uuid' } }), settledCall()];
        await Promise.all([journal.settle(bad), journal.settle(good)]);
        await drain.drained();
        expect(idsOf(batches)).toEqual([good.facts.id]);
        expect(drain.counts()).toMatchObject({ stored: 1, quarantined: 1, refused: 1 });
        const line = logger.lines.find(({ message }) => message.includes('could not be stored at all'));
        expect(line?.fields).toMatchObject({ call: bad.facts.id, costNanos: 1_000 });
      },
      { refuses: ({ facts }) => facts.keyId === 'no uuid' },
    ));

  test('does not stop the drain when the quarantine cannot be written either', () =>
    withDrain(
      async ({ dataDir, journal, drain, batches }) => {
        await writeFile(join(dataDir, 'journal', 'quarantine'), 'a file where the folder should be');
        await journal.settle(settledCall({ content: withText('poison') }));
        await drain.drained();
        expect(batches.flat()).toMatchObject([{ content: null }]);
      },
      { refuses: isPoison },
    ));

  test('text is made storable before the database sees it', () =>
    withDrain(async ({ journal, drain, batches }) => {
      const facts = factsOf();
      const correlation = { ...facts.correlation, taskId: `\0${'😀'.repeat(300)}`, agentId: 'a\ud800b' };
      const call = settledCall({
        facts: { ...facts, source: `${'é'.repeat(300)}`, modelAsked: 'm\0x', correlation },
        content: { request: Buffer.from('{}'), answer: { text: 'a\0b\udc00', toolCalls: [{ name: 'n\0', arguments: '"\ud83d"' }] } },
      });
      await journal.settle(call);
      await drain.drained();
      expect(batches.flat()[0]).toMatchObject({
        facts: { source: 'é'.repeat(256), modelAsked: 'mx', correlation: { taskId: '😀'.repeat(256), agentId: 'a\ufffdb' } },
        content: { answer: { text: 'ab\ufffd', toolCalls: [{ name: 'n', arguments: '"\ufffd"' }] } },
      });
    }));

  test.each([
    ['22P05', true],
    ['23502', true],
    ['54000', true],
    ['XX000', true],
    ['08006', false],
    ['57P01', false],
    ['53100', false],
    ['40P01', false],
    ['40001', false],
    ['42P01', false],
    ['55P03', false],
    ['ECONNRESET', false],
    ['ENOSPC', false],
    [undefined, true],
  ])('%s is a fault of the data: %s', (code, expected) => {
    expect(isDataFault(Object.assign(new Error('said the database'), code === undefined ? {} : { code }))).toBe(expected);
  });
});

describeDatabases('journal to tables', (database) => {
  const withStore = (work: (lent: { journal: Journal; drain: Drain }) => Promise<void>): Promise<void> =>
    withFolder(async (dataDir) => {
      const [clock, logger] = [clockAt(noon), keepingLogger()];
      const journal = await createJournal({ dataDir, clock, logger, sync: false, reserveBytes: 100 });
      const drain = createDrain({ dataDir, journal, database: database(), store: storeCalls, clock, logger });
      await work({ journal, drain }).finally(() => drain.stop());
      await journal.close();
    });

  test('each call is there once with its attempts, whatever text its caller sent', () =>
    withStore(async ({ journal, drain }) => {
      const facts = factsOf();
      const odd = settledCall({ facts: { ...facts, source: 'a\0b\ud800', plan: [{ model: 'x\0\udfff', skipped: 'no \0' }] } });
      const calls = [odd, ...Array.from({ length: 700 }, () => settledCall())];
      await Promise.all(calls.map((call) => journal.settle(call)));
      await drain.drained(20_000);
      expect(await countRows(database(), calls)).toEqual({ calls: 701, attempts: 701, cost: 701_000 });
      expect(drain.counts()).toMatchObject({ stored: 701, quarantined: 0 });
    }));

  test('a record that SQL refuses costs the others nothing', () =>
    withStore(async ({ journal, drain }) => {
      const good = [settledCall(), settledCall()];
      const bad = settledCall({ facts: { keyId: 'no uuid' } });
      await Promise.all([good[0], bad, good[1]].map((call) => call && journal.settle(call)));
      await drain.drained(5_000);
      expect(await countRows(database(), good)).toMatchObject({ calls: 2 });
      expect(drain.counts()).toMatchObject({ stored: 2, quarantined: 1, refused: 1 });
    }));
});

async function countRows(database: Database, calls: readonly SettledCall[]): Promise<unknown> {
  const [row] = await database.query(
    `select (select count(*) from calls where id = any ($1::uuid[])) as calls,
            (select count(*) from attempts where call_id = any ($1::uuid[])) as attempts,
            (select sum(cost_nanos)::bigint from calls where id = any ($1::uuid[])) as cost`,
    [calls.map(({ facts }) => facts.id)],
  );
  return row;
}
