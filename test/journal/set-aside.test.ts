/** Tests that a locked project doesn't delay the calls of other projects, and that its own calls are stored later. */
import { readdir, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createStoreBatch } from '../../src/app/store-batch.ts';
import type { SettledCall } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import type { Database, Queries } from '../../src/db/database.ts';
import { lockConversations, lockProject } from '../../src/db/locks.ts';
import { createRecovery } from '../../src/journal/recover.ts';
import { createKnownPrompts } from '../../src/memory/conversations/known-prompts.ts';
import { createCredentialMasker } from '../../src/memory/text/credential-masker.ts';
import { createProject } from '../memory/calls.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import type { TestDatabase } from '../support/postgres-database.ts';
import { until } from '../support/until.ts';
import { connectionError, noon, settledCall } from './calls.ts';
import { idsOf, withDrain } from './drain-helper.ts';
import { callOf, createLockedStore, locked, lockTimeout, other, projectsOf } from './locked-store.ts';

const ids = (calls: readonly SettledCall[]): string[] => idsOf([calls]);

describePostgres('a locked project', () => {
  let created: TestDatabase;
  let database: Database;
  let observer: Database;
  const store = createStoreBatch(createCredentialMasker(), createKnownPrompts());
  beforeAll(async () => {
    created = await createTestDatabase();
    database = openTestDatabase(created.url, 5);
    observer = openTestDatabase(created.url, 10);
  });
  afterAll(async () => {
    await database.close();
    await observer.close();
    await created.drop();
  });

  type Lock = (tx: Queries, projectId: string) => Promise<void>;
  const locks: readonly [what: string, lock: Lock][] = [
    ['the project', (tx, projectId) => lockProject(tx, projectId, 'exclusive')],
    ['its conversations', lockConversations],
  ];
  const [[, exclusively]] = locks as [[string, Lock]];

  /** Holds a lock of the project until the returned function is called. */
  const holdLock = async (lock: Lock, projectId: string): Promise<() => Promise<void>> => {
    const [locked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const held = observer.transaction(async (tx) => {
      await tx.query('set local idle_in_transaction_session_timeout = 0');
      await lock(tx, projectId);
      locked.resolve();
      await released.promise;
    });
    await locked.promise;
    return () => {
      released.resolve();
      return held;
    };
  };

  /** Creates a locked project and one that isn't locked. */
  const createProjects = async (lock = exclusively) => {
    const [locked, other] = [await createProject(observer), await createProject(observer)];
    return { locked, other, release: await holdLock(lock, locked) };
  };

  const findStored = async (calls: readonly SettledCall[]): Promise<string[]> => {
    const rows = await observer.query<{ id: string }>('select id from calls where id = any ($1::uuid[])', [ids(calls)]);
    const stored = rows.map(({ id }) => id);
    return ids(calls).filter((id) => stored.includes(id));
  };

  test.each(locks)("stores other projects' calls without delay while a transaction locks %s", async (_what, lock) => {
    const { locked, other, release } = await createProjects(lock);
    const reported: SettledCall[] = [];
    const reportedOf = (project: string): string[] => ids(reported.filter(({ metadata }) => metadata.projectId === project));
    await withDrain(
      async ({ journal, drain }) => {
        const calls: Record<string, SettledCall[]> = { [locked]: [], [other]: [] };
        const settle = (projectId: string): Promise<void> => {
          const call = callOf(projectId);
          calls[projectId]?.push(call);
          return journal.settle(call);
        };
        for (let round = 0; round < 3; round += 1) {
          await Promise.all([locked, other, locked, other].map(settle));
          await drain.waitUntilDrained({ projectId: other, timeoutMs: 60_000 });
          expect(await findStored(calls[other] ?? [])).toHaveLength(2 * (round + 1));
          await journal.seal();
        }
        await settle(other);
        await drain.waitUntilDrained({ timeoutMs: 60_000 });
        expect(reportedOf(other)).toEqual(ids(calls[other] ?? []));
        await drain.waitUntilDrained({ projectId: locked, timeoutMs: 20 });
        expect(reportedOf(locked)).toEqual([]);
        expect(await drain.drainAndDelete(50)).toBe(false);
        expect(journal.segments().map(({ number }) => number)).toEqual([1, 2, 3, 4]);
        expect(drain.counts()).toMatchObject({ stored: 7 });
        expect(drain.counts().backlogBytes).toBeGreaterThan(0);
        expect(drain.counts().lagMs).toBeGreaterThan(0);

        await release();
        await drain.waitUntilDrained({ projectId: locked, timeoutMs: 60_000 });
        expect(await findStored(calls[locked] ?? [])).toEqual(ids(calls[locked] ?? []));
        expect(await drain.drainAndDelete(60_000)).toBe(true);
        expect(reportedOf(locked)).toEqual(ids(calls[locked] ?? []));
        expect(reportedOf(other)).toEqual(ids(calls[other] ?? []));
        expect(drain.counts()).toEqual({ stored: 13, quarantined: 0, rejected: 0, backlogBytes: 0, lagMs: 0 });
      },
      { database, store, onStored: (calls) => void reported.push(...calls) },
    );
  });

  test("recovery stores a locked project's calls if the process ends before the lock is released", async () => {
    const { locked, other, release } = await createProjects();
    const calls = [locked, other, locked, other].map((projectId) => callOf(projectId));
    await withDrain(
      async ({ dataDir, journal, drain, logger }) => {
        await Promise.all(calls.map((call) => journal.settle(call)));
        await drain.waitUntilDrained({ timeoutMs: 60_000 });
        await drain.stop(20);
        await journal.close();
        const recovery = createRecovery({ dataDir, ownId: 'none', database, store, logger });
        const recovered = recovery.recover();
        await release();
        expect(await recovered).toBe(1);
        expect(await findStored(calls)).toEqual(ids(calls));
        await recovery.stop();
      },
      { database, store },
    );
  });

  test("moves a locked project's rejected calls to the quarantine", async () => {
    const { locked, other, release } = await createProjects();
    const rejected: SettledCall[] = [];
    await withDrain(
      async ({ journal, drain }) => {
        const bad = settledCall({ metadata: { projectId: locked, keyId: 'not a uuid' } });
        const good = [locked, other, locked].map((projectId) => callOf(projectId));
        await Promise.all([...good, bad, callOf(locked)].map((call) => journal.settle(call)));
        await drain.waitUntilDrained({ timeoutMs: 60_000 });
        expect(rejected).toEqual([]);
        await release();
        await drain.waitUntilDrained({ projectId: locked, timeoutMs: 60_000 });
        expect(await findStored(good)).toEqual(ids(good));
        expect(ids(rejected)).toEqual(ids([bad]));
        expect(drain.counts()).toMatchObject({ stored: 4, quarantined: 1, rejected: 1 });
      },
      { database, store, onRejected: (call) => void rejected.push(call) },
    );
  });

  test('leaves database connections for other projects if many projects are locked', async () => {
    const projects = await Promise.all(Array.from({ length: 5 }, () => createProjects()));
    const calls = projects.flatMap(({ locked, other }) => [callOf(locked), callOf(other)]);
    let [active, mostActive] = [0, 0];
    const counting: Database = {
      ...database,
      async transaction(work, settings) {
        active += 1;
        mostActive = Math.max(active, mostActive);
        return database.transaction(work, settings).finally(() => {
          active -= 1;
        });
      },
    };
    await withDrain(
      async ({ journal, drain }) => {
        await Promise.all(calls.map((call) => journal.settle(call)));
        await drain.waitUntilDrained({ timeoutMs: 60_000 });
        await until('the drain waits for locks', () => active === 3);
        expect(mostActive).toBe(3);
        expect(await findStored(calls)).toHaveLength(5);
        await Promise.all(projects.map(({ release }) => release()));
        expect(await drain.drainAndDelete(60_000)).toBe(true);
        expect(await findStored(calls)).toEqual(ids(calls));
        // Three of them wait for locks, and two others store the calls of projects that aren't locked any more.
        expect(mostActive).toBeLessThanOrEqual(5);
      },
      { database: counting, store },
    );
  });
});

describe('a project that was set aside', () => {
  test.each([
    ['memory', 16_000_000],
    ['disk', 0],
  ])("stores a project's calls together with others again once it has caught up (%s)", async (_source, recentBytes) => {
    const state = createLockedStore();
    await withDrain(
      async ({ journal, drain, logger }) => {
        await Promise.all([locked, other].map((projectId) => journal.settle(callOf(projectId))));
        await drain.waitUntilDrained();
        state.isLocked = false;
        await drain.waitUntilDrained({ projectId: locked });
        await Promise.all([locked, other].map((projectId) => journal.settle(callOf(projectId))));
        await drain.waitUntilDrained();
        expect(state.batches.map((batch) => batch.map(({ metadata }) => metadata.projectId))).toEqual([[other], [locked], [locked, other]]);
        expect(logger.lines).toEqual([
          { level: 'info', message: 'project is locked; storing its calls separately', fields: { projectId: locked } },
        ]);
      },
      { recentBytes, store: state.store },
    );
  });

  test('reports each call once if some were stored before the project was locked', async () => {
    const state = createLockedStore();
    state.isLocked = false;
    const reported: SettledCall[] = [];
    await withDrain(
      async ({ journal, drain }) => {
        const calls = Array.from({ length: 1_200 }, () => settledCall({ metadata: { projectId: locked } }));
        await Promise.all(calls.map((call) => journal.settle(call)));
        await drain.waitUntilDrained();
        expect(reported).toHaveLength(500);
        state.isLocked = false;
        await drain.waitUntilDrained({ projectId: locked });
        expect(ids(reported)).toEqual(ids(calls));
        expect(drain.counts()).toMatchObject({ stored: 1_200 });
      },
      {
        store: state.store,
        segmentBytes: 10_000_000,
        onStored(calls) {
          if (reported.length === 0) state.isLocked = true;
          reported.push(...calls);
        },
      },
    );
  });

  test('stores all calls of a project that catches up while the drain is busy with another project', async () => {
    const state = createLockedStore();
    const gate = Promise.withResolvers<void>();
    let isAtGate = false;
    await withDrain(
      async ({ journal, drain }) => {
        const calls = [callOf(locked), callOf(other), callOf(locked)];
        const [first, ...later] = calls;
        if (first) await journal.settle(first);
        await drain.waitUntilDrained();
        await Promise.all(later.map((call) => journal.settle(call)));
        drain.wake();
        await until('the call of the other project is being stored', () => isAtGate);
        state.isLocked = false;
        await until('the locked project has caught up', () => state.batches.length > 0);
        gate.resolve();
        await drain.waitUntilDrained({ projectId: locked });
        expect(ids(state.batches.flat())).toEqual(ids(calls));
      },
      {
        async store(tx, calls) {
          if (calls.some(({ metadata }) => metadata.projectId === other)) {
            isAtGate = true;
            await gate.promise;
          }
          await state.store(tx, calls);
        },
      },
    );
  });

  test('reports about all projects include a project as soon as its reader has caught up', async () => {
    const state = createLockedStore();
    await withDrain(
      async ({ journal, drain }) => {
        await journal.settle(callOf(locked));
        await drain.waitUntilDrained();
        expect(state.batches).toEqual([]);
        state.isLocked = false;
        await drain.waitUntilDrained({ projectId: locked });
        await journal.seal();
        await drain.waitUntilDrained();
        for (let stored = 2; stored < 6; stored += 1) {
          await journal.settle(callOf(locked));
          await drain.waitUntilDrained();
          expect(state.batches.flat()).toHaveLength(stored);
        }
        state.isLocked = true;
        await journal.settle(callOf(locked));
        await drain.waitUntilDrained();
        expect(state.batches.flat()).toHaveLength(5);
        expect(drain.counts().backlogBytes).toBeGreaterThan(0);
        state.isLocked = false;
        expect(await drain.drainAndDelete()).toBe(true);
      },
      {
        minAsideMs: 60_000,
        async store(tx, calls) {
          await sleep(10);
          await state.store(tx, calls);
        },
      },
    );
  });

  test("doesn't store later calls if the drain is stopped while it waits for a project's reader", async () => {
    const state = createLockedStore();
    const gate = Promise.withResolvers<void>();
    const text = JSON.stringify({ model: 'standard', messages: [{ role: 'user', content: 'x'.repeat(3_000_000) }] });
    const calls = [callOf(locked, text), callOf(locked, text)];
    await withDrain(
      async ({ journal, drain }) => {
        await Promise.all(calls.map((call) => journal.settle(call)));
        await drain.waitUntilDrained();
        state.isLocked = false;
        await until('the first call is stored, and the second one is being stored', () => state.batches.length === 2);
        await journal.settle(callOf(other));
        await drain.stop(20);
        gate.resolve();
        await sleep(50);
        expect(idsOf(state.batches)).toEqual(ids(calls));
      },
      {
        segmentBytes: 16_000_000,
        async store(tx, batch) {
          await state.store(tx, batch);
          if (state.batches.length === 2) await gate.promise;
        },
      },
    );
  });

  test('retries a project if more projects are locked than can be set aside', async () => {
    const projects = Array.from({ length: 9 }, () => newId(noon));
    const stillLocked = new Set(projects);
    const stored: SettledCall[] = [];
    await withDrain(
      async ({ journal, drain, logger }) => {
        await Promise.all(projects.map((projectId) => journal.settle(callOf(projectId))));
        drain.wake();
        await until('the drain has given up on the ninth project', () =>
          logger.lines.some(({ message }) => message.startsWith('failed to copy')),
        );
        for (const projectId of projects.slice(0, 8)) stillLocked.delete(projectId);
        await until('the calls of the others are stored', () => stored.length === 8);
        stillLocked.clear();
        await drain.waitUntilDrained({ timeoutMs: 10_000 });
        expect(projectsOf(stored).toSorted()).toEqual(projects.toSorted());
      },
      {
        async store(_tx, calls) {
          const isFull = projectsOf(calls).every((projectId) => projectId === projects.at(-1));
          if (projectsOf(calls).some((projectId) => stillLocked.has(projectId)))
            throw isFull ? Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' }) : lockTimeout();
          stored.push(...calls);
        },
      },
    );
  });

  test('moves unreadable records to the quarantine', async () => {
    const state = createLockedStore();
    await withDrain(
      async ({ dataDir, journal, drain, logger }) => {
        const readable = callOf(locked);
        // JSON has no NaN, so the record contains a null, and the journal rejects it.
        const unreadable = settledCall({ metadata: { projectId: locked }, result: { durationMs: Number.NaN } });
        await Promise.all([readable, unreadable].map((call) => journal.settle(call)));
        await drain.waitUntilDrained();
        state.isLocked = false;
        expect(await drain.drainAndDelete()).toBe(true);
        expect(idsOf(state.batches)).toEqual(ids([readable]));
        expect(drain.counts()).toMatchObject({ stored: 1, quarantined: 1, rejected: 1 });
        expect(await readdir(join(dataDir, 'journal', 'quarantine'))).toEqual([expect.stringContaining(unreadable.metadata.id)]);
        expect(logger.lines.at(-1)).toMatchObject({ level: 'error', fields: { call: unreadable.metadata.id, inQuarantine: true } });
      },
      { store: state.store },
    );
  });

  test('a project stays set aside when the drain retries the batch', async () => {
    const state = createLockedStore();
    let failures = 0;
    await withDrain(
      async ({ journal, drain, logger }) => {
        await Promise.all([locked, other].map((projectId) => journal.settle(callOf(projectId))));
        await drain.waitUntilDrained({ timeoutMs: 10_000 });
        expect(failures).toBe(1);
        expect(logger.lines.filter(({ message }) => message.startsWith('project is locked'))).toHaveLength(1);
      },
      {
        async store(tx, calls) {
          await state.store(tx, calls);
          if (failures > 0) return;
          failures += 1;
          throw connectionError();
        },
      },
    );
  });

  test('retries a locked project after a database outage', async () => {
    const state = createLockedStore();
    await withDrain(
      async ({ journal, drain, database, logger }) => {
        const calls = [locked, other, locked].map((projectId) => callOf(projectId));
        await Promise.all(calls.map((call) => journal.settle(call)));
        await drain.waitUntilDrained();
        database.fail(connectionError());
        await until('the outage is logged', () =>
          logger.lines.some(({ level, fields }) => level === 'warn' && fields.projectId === locked),
        );
        state.isLocked = false;
        database.fail(null);
        await drain.waitUntilDrained({ projectId: locked });
        expect(idsOf(state.batches).toSorted()).toEqual(ids(calls).toSorted());
        await until('the recovery is logged', () => logger.lines.at(-1)?.message === 'copying the journal to the database again');
      },
      { store: state.store },
    );
  });

  test('continues with a project after an outage even if the drain is already further ahead', async () => {
    const state = createLockedStore();
    await withDrain(
      async ({ journal, drain, database, logger }) => {
        const calls = [callOf(locked), callOf(locked)];
        const [first, second] = calls as [SettledCall, SettledCall];
        await journal.settle(first);
        await drain.waitUntilDrained();
        database.fail(connectionError());
        await until('the outage is logged', () =>
          logger.lines.some(({ level, fields }) => level === 'warn' && fields.projectId === locked),
        );
        const triedBefore = state.tries;
        database.fail(null);
        await until('the reader finds out that the project is still locked', () => state.tries > triedBefore);
        await journal.settle(second);
        await drain.waitUntilDrained();
        state.isLocked = false;
        expect(await drain.drainAndDelete(10_000)).toBe(true);
        expect(idsOf(state.batches)).toEqual(ids(calls));
      },
      { store: state.store },
    );
  });

  test("continues with a project's calls after a damaged segment", async () => {
    const state = createLockedStore();
    await withDrain(
      async ({ journal, drain, logger }) => {
        const [before, damaged, after] = [callOf(locked), callOf(locked), callOf(locked)];
        await journal.settle(before);
        const good = journal.segments()[0]?.bytes ?? 0;
        await journal.settle(damaged);
        await journal.seal();
        await journal.settle(after);
        await drain.waitUntilDrained();
        await truncate(journal.segments()[0]?.file ?? '', good + 10);
        state.isLocked = false;
        await drain.waitUntilDrained({ projectId: locked });
        expect(idsOf(state.batches)).toEqual(ids([before, after]));
        expect(logger.lines.filter(({ message }) => message === 'journal segment damaged')).toHaveLength(1);
      },
      { store: state.store },
    );
  });
});
