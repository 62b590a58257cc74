/** Tests how long the drain waits for locked projects, and when it stores their calls together with others again. */
import { isDeepStrictEqual } from 'node:util';
import { expect, jest, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import type { Database, Queries } from '../../src/db/database.ts';
import { databaseOf } from '../../src/db/query-slots.ts';
import { createBatchStore } from '../../src/journal/batch-store.ts';
import { decodeFrames, encodeFrame } from '../../src/journal/frame.ts';
import { createLockTimeouts } from '../../src/journal/lock-timeouts.ts';
import { createQuarantine } from '../../src/journal/quarantine.ts';
import { encodeRecord } from '../../src/journal/record.ts';
import { createRecovery } from '../../src/journal/recover.ts';
import { until } from '../support/until.ts';
import { connectionError, emptyDatabase, keepingLogger, noon, settledCall, withFolder } from './calls.ts';
import { idsOf, withDrain } from './drain-helper.ts';
import { callOf, createLockedStore, locked, lockTimeout, other, projectsOf } from './locked-store.ts';

/** Passes the settings of each transaction to `begin`. */
function withSettings(begin: (tx: Queries, settings: string | undefined) => void): Database {
  const database = emptyDatabase();
  return {
    ...database,
    transaction: (work, settings) =>
      database.transaction((tx) => {
        begin(tx, settings);
        return work(tx);
      }),
  };
}

test('waits for a lock up to four times as long as recent batches took', async () => {
  let now = 5_000;
  jest.spyOn(performance, 'now').mockImplementation(() => now);
  const durations = [2_000, 0, 8_000, ...Array.from({ length: 40 }, () => 0)];
  const settings: (string | undefined)[] = [];
  await withDrain(
    async ({ journal, drain }) => {
      while (durations.length > 0) {
        await journal.settle(callOf(other));
        await drain.waitUntilDrained();
      }
      expect(settings.slice(0, 4)).toEqual([1_000, 8_000, 7_200, 10_000].map((ms) => `set local lock_timeout = ${ms}`));
      expect(settings.at(-1)).toBe('set local lock_timeout = 1000');
    },
    {
      database: withSettings((_tx, value) => void settings.push(value)),
      async store() {
        now += durations.shift() ?? 0;
      },
    },
  );
});

test.each([
  ['short', 100, 1_000, 1_000],
  ['long', 8_000, 10_000, 5_000],
])('never waits longer for an unlocked project than for a locked one (%s batches)', (_batches, durationMs, shared, free) => {
  const timeouts = createLockTimeouts({ isFull: () => false });
  timeouts.addBatch(durationMs);
  expect([timeouts.timeoutOf('shared'), timeouts.timeoutOf('free'), timeouts.timeoutOf('locked')]).toEqual([shared, free, 5_000]);
});

test('waits only briefly for a lock until the project is known to be locked', async () => {
  const state = createLockedStore();
  const settings: (string | undefined)[] = [];
  const tries = (...timeoutsMs: number[]) => {
    const expected = timeoutsMs.map((ms) => `set local lock_timeout = ${ms}`);
    return until(`the calls are stored with ${expected}`, () => isDeepStrictEqual(settings.slice(0, expected.length), expected));
  };
  await withDrain(
    async ({ journal, drain }) => {
      await journal.settle(callOf(locked));
      drain.wake();
      await tries(1_000, 5_000, 5_000);
      state.isLocked = false;
      await drain.waitUntilDrained({ projectId: locked });
      state.isLocked = true;
      settings.length = 0;
      await journal.settle(callOf(locked));
      drain.wake();
      await tries(1_000, 5_000, 5_000);
      state.isLocked = false;
      expect(await drain.drainAndDelete()).toBe(true);
    },
    { minAsideMs: 60_000, database: withSettings((_tx, value) => void settings.push(value)), store: state.store },
  );
});

test('never sets aside more than eight projects', async () => {
  const projects = Array.from({ length: 10 }, () => newId(noon));
  const limited = new WeakSet<Queries>();
  const unlocked = Promise.withResolvers<void>();
  let isLocked = true;
  let isWaiting = false;
  await withDrain(
    async ({ journal, drain, logger }) => {
      await Promise.all(projects.map((projectId) => journal.settle(callOf(projectId))));
      drain.wake();
      await until('the drain waits for a lock without a timeout', () => isWaiting);
      expect(logger.lines.map(({ fields }) => fields.projectId)).toEqual(projects.slice(0, 8));
      isLocked = false;
      unlocked.resolve();
      expect(await drain.drainAndDelete()).toBe(true);
      expect(drain.counts()).toMatchObject({ stored: 10 });
    },
    {
      database: withSettings((tx, settings) => void (settings && limited.add(tx))),
      async store(tx) {
        if (!isLocked) return;
        if (limited.has(tx)) throw lockTimeout();
        isWaiting = true;
        await unlocked.promise;
      },
    },
  );
});

test("stops setting a project aside once it's unlocked, even while the drain is busy", async () => {
  const state = createLockedStore();
  let lockedCall = '';
  await withDrain(
    async ({ journal, drain }) => {
      const calls: SettledCall[] = [];
      for (let window = 0; window < 5; window += 1) {
        const added = Array.from({ length: 500 }, (_, n) => settledCall({ metadata: { projectId: n % 2 ? locked : other } }));
        await Promise.all(added.map((call) => journal.settle(call)));
        calls.push(...added);
      }
      lockedCall = calls[1]?.metadata.id ?? '';
      await drain.waitUntilDrained();
      expect(new Set(projectsOf(state.batches.at(-1) ?? []))).toEqual(new Set([locked, other]));
      expect(idsOf(state.batches).toSorted()).toEqual(idsOf([calls]).toSorted());
    },
    {
      segmentBytes: 10_000_000,
      async store(tx, calls) {
        // We only store the second window when the reader has stored the first.
        if (state.batches.length > 0 && projectsOf(calls).includes(other)) {
          state.isLocked = false;
          await until('the first window of the locked project is stored', () => idsOf(state.batches).includes(lockedCall));
        }
        await state.store(tx, calls);
      },
    },
  );
});

test("stops setting a project aside once it's unlocked, even if a new segment has begun", async () => {
  const state = createLockedStore();
  await withDrain(
    async ({ journal, drain }) => {
      const settleBoth = async (): Promise<void> => {
        await Promise.all([locked, other].map((projectId) => journal.settle(callOf(projectId))));
        await drain.waitUntilDrained();
        await journal.seal();
      };
      await settleBoth();
      state.isLocked = false;
      await drain.waitUntilDrained({ projectId: locked });
      await settleBoth();
      expect(state.batches.map(projectsOf)).toEqual([[other], [locked], [locked, other]]);
    },
    { store: state.store },
  );
});

test("lets recovery store a locked project's calls if the drain is stopped first", async () => {
  const state = createLockedStore();
  const stopped = Promise.withResolvers<void>();
  let isStoring = false;
  await withDrain(
    async ({ dataDir, journal, drain, database, logger }) => {
      const calls = [locked, other].map((projectId) => callOf(projectId));
      await Promise.all(calls.map((call) => journal.settle(call)));
      drain.wake();
      await until('the calls are being stored', () => isStoring);
      await drain.stop(20);
      stopped.resolve();
      await until('the call of the other project is stored', () => state.batches.length > 0);
      state.isLocked = false;
      await journal.close();
      const recovery = createRecovery({ dataDir, ownId: 'none', database, store: state.store, logger });
      await recovery.recover();
      await recovery.stop();
      expect(state.batches.map(projectsOf)).toEqual([[other], [locked, other]]);
    },
    {
      async store(tx, calls) {
        isStoring = true;
        await stopped.promise;
        await state.store(tx, calls);
      },
    },
  );
});

test("stores a project's calls even if all of its other database connections are busy", async () => {
  const state = createLockedStore();
  const finished = Promise.withResolvers<void>();
  await withDrain(
    async ({ journal, drain, database }) => {
      await journal.settle(callOf(locked));
      await drain.waitUntilDrained();
      const busy = Array.from({ length: 4 }, () => databaseOf(database, locked).transaction(() => finished.promise));
      state.isLocked = false;
      await drain.waitUntilDrained({ projectId: locked });
      expect(state.batches.map(projectsOf)).toEqual([[locked]]);
      finished.resolve();
      await Promise.all(busy);
    },
    { store: state.store },
  );
});

test('sets a project aside if it gets locked after the database has rejected one of its calls', async () => {
  const state = createLockedStore();
  await withDrain(
    async ({ journal, drain, logger }) => {
      await Promise.all([locked, other].map((projectId) => journal.settle(callOf(projectId))));
      await drain.waitUntilDrained();
      expect(state.batches.map(projectsOf)).toEqual([[other]]);
      expect(logger.lines.map(({ message }) => message)).toEqual(['project is locked; storing its calls separately']);
      state.isLocked = false;
      await drain.waitUntilDrained({ projectId: locked });
      expect(state.batches.map(projectsOf)).toEqual([[other], [locked]]);
      expect(drain.counts()).toMatchObject({ stored: 2, quarantined: 1, rejected: 0 });
    },
    {
      async store(tx, calls) {
        const isRejected = calls.some(({ metadata, content }) => metadata.projectId === locked && content);
        if (isRejected) throw Object.assign(new Error('invalid input'), { code: '22P02' });
        await state.store(tx, calls);
      },
    },
  );
});

test('quarantines the damaged records of a locked project once', () =>
  withFolder(async (dataDir) => {
    const state = createLockedStore();
    const logger = keepingLogger();
    const setAside = new Set<string>();
    const batches = createBatchStore({
      ...{ database: emptyDatabase(), store: state.store, quarantine: createQuarantine(dataDir), logger, failpoint: () => undefined },
      setAside: {
        has: (id) => setAside.has(id),
        isMentionedIn: (meta) => [...setAside].some((id) => meta.includes(id)),
        isFull: () => false,
        add: (id) => void setAside.add(id),
      },
    });
    const { metadata: facts, result } = callOf(locked);
    const records = [
      { kind: 'settled', facts, result, content: null, shared: { content: { answer: null }, pieces: [3, [0, 900_000]] } },
      { kind: 'from a later version', facts },
    ];
    const { frames } = decodeFrames(Buffer.concat(records.flatMap((record) => encodeFrame(JSON.stringify(record), Buffer.alloc(0)))));
    await batches.storeFrames(frames);
    await expect(batches.storeFramesOf(locked, frames, 'locked')).rejects.toMatchObject({ code: '55P03' });
    expect(logger.lines).toEqual([]);
    state.isLocked = false;
    await batches.storeFramesOf(locked, frames, 'locked');
    expect(logger.lines.map(({ message }) => message)).toEqual([
      'call stored without its text because the journal is damaged',
      'journal record not readable by this version',
    ]);
    expect(batches.counts()).toEqual({ stored: 1, quarantined: 2, rejected: 1 });
  }));

test('reports a call once if an unreadable record cannot be quarantined at first', () =>
  withFolder(async (dataDir) => {
    const reported: SettledCall[] = [];
    let isDown = true;
    const quarantine = createQuarantine(dataDir, async () => {
      if (isDown) throw connectionError();
      return false;
    });
    const batches = createBatchStore({
      ...{ database: emptyDatabase(), store: async () => undefined, quarantine, logger: keepingLogger(), failpoint: () => undefined },
      onStored: (calls) => void reported.push(...calls),
    });
    const call = callOf(other);
    const { memory, ...facts } = call.metadata;
    const unreadable = JSON.stringify({ kind: 'from a later version', facts: { ...facts, memory: { ...memory, subject: 'ada' } } });
    const { frames } = decodeFrames(
      Buffer.concat([...encodeRecord({ kind: 'settled', call }), ...encodeFrame(unreadable, Buffer.alloc(0))]),
    );
    await expect(batches.storeFrames(frames)).rejects.toThrow(connectionError().message);
    isDown = false;
    await batches.storeFrames(frames);
    expect(idsOf([reported])).toEqual([call.metadata.id]);
    expect(batches.counts()).toEqual({ stored: 1, quarantined: 1, rejected: 1 });
  }));
