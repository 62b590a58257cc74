/**
 * Compares the simulation's model of the ceiling tables with real databases. The same random commands have to return
 * the same results.
 */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { countersFor, formatCounterKey, type LimitedCounter } from '../../src/ceilings/counters.ts';
import { deleteExpiredCounters } from '../../src/ceilings/expired-counters.ts';
import { createLeaseStore, type LeaseKey, type LeaseStore } from '../../src/ceilings/lease-store.ts';
import type { SettledCall } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import { noTokens } from '../../src/core/pricing.ts';
import type { Database } from '../../src/db/database.ts';
import { describeDatabases } from '../db/databases.ts';
import { noon, settledCall } from '../journal/calls.ts';
import { createCeilingsStore, createModelLeaseStore } from '../simulation/ceilings-store.ts';
import { createRandom, type Random } from '../support/random.ts';
import { limitsOf, storeAndCount } from './quota-harness.ts';

const runs = 3;
const commands = 60;

type Command = (store: LeaseStore) => Promise<unknown>;

interface Given {
  readonly random: Random;
  readonly counters: readonly LimitedCounter[];
  readonly processes: readonly [string, ...string[]];
  /** The ids of created counters in both stores, by position in `counters`. */
  readonly idOf: (store: LeaseStore, counter: LimitedCounter) => number;
}

function commandFrom({ random, counters, processes, idOf }: Given): Command {
  const counter = counters[random.below(counters.length)];
  if (!counter) throw new Error('no counter');
  const process = random.pick([...processes]);
  const generation = random.between(1, 2);
  const amount = random.between(0, 30);
  const debited = random.between(0, 10);
  const leaseIn = (store: LeaseStore): LeaseKey => ({
    projectId: counter.key.projectId,
    process,
    counterId: idOf(store, counter),
    generation,
  });
  switch (random.pick(['acquire', 'acquire', 'acquire', 'release', 'reconcile', 'remove', 'publish', 'requestReturn', 'revokeAll'])) {
    case 'acquire': {
      const isLeaseExpected = random.chance(0.5);
      const [limit, need, demand] = [random.between(-5, 120), random.between(1, 25), random.between(0, 40)];
      const [defaultGrant, takesRemainder] = [random.between(0, 20), random.chance(0.5)];
      const wanted = { limit, need, demand, defaultGrant, takesRemainder };
      return async (store) => {
        const grant = await store.acquire({ process, generation, isLeaseExpected, counter: counter.key, ...wanted });
        return grant && [grant.granted, grant.heldByOthers];
      };
    }
    case 'release':
      return (store) => store.release(leaseIn(store), amount);
    case 'reconcile':
      return (store) => store.reconcile(leaseIn(store), amount, debited);
    case 'remove':
      return (store) => store.remove(leaseIn(store));
    case 'publish':
      return (store) => store.publish(process, new Map([[idOf(store, counter), amount]]));
    case 'requestReturn':
      return (store) => store.requestReturn(leaseIn(store));
    default:
      return (store) => store.revokeAll(process);
  }
}

describeDatabases('a model of ceiling counters and leases', (database) => {
  test('the database matches the model after every random lease command', async () => {
    for (let seed = 1; seed <= runs; seed += 1) await compare(database(), createRandom(seed));
  });
});

async function compare(database: Database, random: Random): Promise<void> {
  const limits = limitsOf({ calls: 100, cost: 100, rpm: 100, tpm: 100 }, { project: { monthlyCapNanos: 100 } });
  const counters = [...countersFor(limits, noon), ...countersFor(limits, noon + 60_000)];
  const processes = [randomUUID(), randomUUID()] as const;
  const model = createCeilingsStore();
  const modelStore = createModelLeaseStore(
    model,
    async (execute) => execute(),
    () => undefined,
  );
  const store = createLeaseStore(database);
  const ids = new Map<string, number>();
  const given: Given = {
    random,
    counters,
    processes,
    idOf: (from, { name }) =>
      (from === store ? ids.get(name) : model.counters().find(({ key }) => formatCounterKey(key) === name)?.id) ?? 0,
  };
  for (let n = 0; n < commands; n += 1) {
    if (random.chance(0.25)) {
      const batch = callsOf(given, limits, ids);
      await storeAndCount(database, batch.stored);
      model.storeCalls(batch.modelled(model));
    } else if (random.chance(0.02)) {
      const before = noon + random.between(-60_000, 120_000);
      await deleteExpiredCounters(database, { now: () => before + 3_600_000 });
      model.deleteExpired(before);
    } else {
      const command = commandFrom(given);
      expect({ seed: n, result: await command(store) }).toEqual({ seed: n, result: await command(modelStore) });
    }
    // No time passes in the model.
    await database.query('update limit_counters set return_requested_at = now() where return_requested_at is not null');
    const rows = await readCounters(database, limits.projectId);
    ids.clear();
    for (const { id, name } of rows) ids.set(name, id);
    expect(rows.map(({ id, ...row }) => row)).toEqual(modelRows(model));
  }
}

/** Returns calls that debit leases, some of which were stored before. The ids of counters differ between the stores. */
function callsOf({ random, counters, processes }: Given, limits: ReturnType<typeof limitsOf>, ids: ReadonlyMap<string, number>) {
  const calls = Array.from({ length: random.between(1, 3) }, () => {
    const startedAt = noon + random.between(0, 119_999);
    const spent = random.between(0, 20);
    const debits = counters.filter(({ name }) => ids.has(name) && random.chance(0.3));
    const amounts = debits.map((counter) => ({ counter, generation: random.between(1, 2), amount: random.between(0, 9) }));
    return { id: newId(startedAt), startedAt, spent, process: random.pick([...processes]), amounts };
  });
  const build = (idOf: (counter: LimitedCounter) => number): SettledCall[] =>
    calls.map(({ id, startedAt, spent, process, amounts }) =>
      settledCall({
        metadata: { id, startedAt, projectId: limits.projectId, keyId: limits.keyId, source: limits.source },
        result: {
          costNanos: spent,
          tokens: { ...noTokens, output: spent },
          consumed: { process, amounts: amounts.map(({ counter, ...debit }) => ({ ...debit, counter: idOf(counter) })) },
        },
      }),
    );
  return {
    stored: build(({ name }) => ids.get(name) ?? 0),
    modelled: (model: ReturnType<typeof createCeilingsStore>) =>
      build(({ name }) => model.counters().find(({ key }) => formatCounterKey(key) === name)?.id ?? 0),
  };
}

interface CounterRow {
  readonly id: number;
  readonly name: string;
  readonly settled: number;
  readonly leased: number;
  readonly leases: readonly (readonly [string, number, number, number, number])[];
}

async function readCounters(database: Database, projectId: string): Promise<CounterRow[]> {
  const rows = await database.query<{
    id: number;
    scope: 'key' | 'source' | 'project';
    scopeId: string;
    ceiling: 'calls' | 'cost' | 'rpm' | 'tpm';
    window: 'minute' | 'day' | 'month' | 'total';
    start: Date;
    settled: number;
    leased: number;
    leases: [string, number, number, number, number][] | null;
  }>(
    `select id, holder as scope, holder_id as "scopeId", ceiling, window_kind as window, window_start as start, settled, leased,
            (select json_agg(json_build_array(process, amount, generation, reserved, debited) order by process)
               from limit_leases l where l.counter_id = c.id) as leases
       from limit_counters c where project_id = $1::uuid order by id`,
    [projectId],
  );
  return rows.map(({ id, settled, leased, leases, start, ...key }) => {
    const name = formatCounterKey({ ...key, projectId, start: start.getTime(), end: null });
    return { id, name, settled, leased, leases: leases ?? [] };
  });
}

function modelRows(model: ReturnType<typeof createCeilingsStore>): Omit<CounterRow, 'id'>[] {
  return model.counters().map(({ key, settled, leased, leases }) => ({
    name: formatCounterKey(key),
    settled,
    leased,
    leases: [...leases]
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([process, { amount, generation, reserved, debited }]) => [process, amount, generation, reserved, debited] as const),
  }));
}
