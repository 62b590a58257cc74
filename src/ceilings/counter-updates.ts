/**
 * Updates counters in the transaction that stores calls. That way, a counter's `settled` is always the sum of the call
 * rows in its window. Each call is counted on all counters of its key, application and project, even if nothing was
 * reserved for it.
 */
import type { SettledCall } from '../core/call.ts';
import type { CostAdjustment } from '../core/cost.ts';
import { toArrayLiteral } from '../db/array-literal.ts';
import type { Queries } from '../db/database.ts';
import { lockCounterCreation, tryLockCounterCreation } from '../db/locks.ts';
import { toBatches, toColumns } from '../db/row-batches.ts';

/**
 * `tryApplyCalls` tries to lock the counters this many times, with a pause in between. Processes that acquire leases
 * usually hold these locks for a few milliseconds.
 */
const [lockAttempts, lockPauseSeconds] = [10, 0.01];

/**
 * Adds `calls`, which have just been stored by `tx`, to the counters, and deducts their usage from the leases. If
 * counters are locked, this waits for them, so don't call it while you hold the conversations lock (see `db/locks.ts`).
 */
export async function applyCalls(tx: Queries, calls: readonly SettledCall[]): Promise<void> {
  if (calls.length === 0) return;
  const usage = toUsage(calls);
  await countLocked(tx, usage, await lockAll(tx, usage));
}

/** Locks the counters that `applyCalls` will update. Like `applyCalls`, it waits for whoever has them. */
export async function waitForCounters(tx: Queries, calls: readonly SettledCall[]): Promise<void> {
  await lockAll(tx, toUsage(calls));
}

async function lockAll(tx: Queries, { projectIds, lockParameters }: Usage): Promise<LockedSum[]> {
  await lockCounterCreation(tx, projectIds, 'shared');
  return tx.query<LockedSum>(lockCounters, lockParameters);
}

/**
 * Like `applyCalls`, but gives up and returns false if counters are still locked after a tenth of a second. `tx` may
 * hold some of the locks at that point. This should be the last thing that the transaction does, because it locks rows
 * that other processes need to acquire leases.
 */
export async function tryApplyCalls(tx: Queries, calls: readonly SettledCall[]): Promise<boolean> {
  if (calls.length === 0) return true;
  const usage = toUsage(calls);
  for (let attempt = 1; ; attempt += 1) {
    if (await tryLockCounterCreation(tx, usage.projectIds)) {
      const sums = await tx.query<LockedSum>(tryLockCounters, usage.lockParameters);
      if (sums.every(({ isLocked }) => isLocked)) {
        await countLocked(tx, usage, sums);
        return true;
      }
    }
    if (attempt === lockAttempts) return false;
    // We may hold some of the locks while we sleep, but we aren't waiting for any. So this can't lead to a deadlock.
    await tx.query('select pg_sleep($1::float8)', [lockPauseSeconds]);
  }
}

interface Usage {
  readonly projectIds: readonly string[];
  readonly consumed: readonly ConsumedSum[];
  /**
   * The parameters of `lockCounters` and `tryLockCounters`: the ids of the calls, and the ids of the counters whose
   * leases the calls have used.
   */
  readonly lockParameters: readonly [calls: string, counters: string];
}

function toUsage(calls: readonly SettledCall[]): Usage {
  const consumed = consumedBy(calls);
  return {
    projectIds: [...new Set(calls.map(({ metadata }) => metadata.projectId))],
    consumed,
    lockParameters: [toArrayLiteral(calls, ({ metadata }) => metadata.id), toArrayLiteral(consumed, ({ counter }) => counter)],
  };
}

/**
 * Adds the usage to counters that are already locked. This has to be a separate statement after the one that locks
 * them, so that it sees the current rows.
 */
async function countLocked(tx: Queries, { consumed }: Usage, sums: readonly CounterSum[]): Promise<void> {
  if (sums.length === 0) return;
  await tx.query(countCalls, [...toColumns(sums, 'id', 'amount'), ...toColumns(consumed, 'process', 'counter', 'amount', 'generation')]);
}

/**
 * Adds up to 500 changes of stored costs to the counters. Leases stay the same, because the reservations of these calls
 * ended long ago. This should be the last thing that `tx` does, because it locks rows that other processes need to
 * acquire leases. Returns how much was added to each counter, by counter id.
 */
export async function applyCostAdjustments(tx: Queries, changes: readonly CostAdjustment[]): Promise<ReadonlyMap<number, number>> {
  const nonZero = changes.filter(({ nanos }) => nanos !== 0);
  if (nonZero.length === 0) return new Map();
  const ids = nonZero.map(({ callId }) => callId);
  const projects = await tx.query<{ id: string }>('select distinct project_id as id from calls where id = any($1::uuid[])', [ids]);
  await lockCounterCreation(
    tx,
    projects.map(({ id }) => id),
    'shared',
  );
  const changed = await tx.query<CounterSum>(sumChanged, [ids, nonZero.map(({ nanos }) => nanos)]);
  for (const batch of toBatches(changed)) {
    await tx.query('select id from limit_counters where id = any($1::bigint[]) order by id for update', [batch.map(({ id }) => id)]);
    await tx.query(addToCounters, toColumns(batch, 'id', 'amount'));
  }
  return new Map(changed.map(({ id, amount }) => [id, amount]));
}

interface CounterSum {
  readonly id: number;
  readonly amount: number;
}

interface LockedSum extends CounterSum {
  readonly isLocked: boolean;
}

interface ConsumedSum {
  readonly process: string;
  readonly counter: number;
  readonly generation: number;
  amount: number;
}

function consumedBy(calls: readonly SettledCall[]): ConsumedSum[] {
  const byCounter = new Map<number, ConsumedSum[]>();
  for (const { result } of calls) {
    if (!result.consumed) continue;
    const { process, amounts } = result.consumed;
    for (const { counter, generation, amount } of amounts) {
      const known = byCounter.get(counter);
      const sums = known ?? [];
      if (known === undefined) byCounter.set(counter, sums);
      const sum = sumOf(sums, generation, process);
      if (sum) sum.amount += amount;
      else sums.push({ process, counter, generation, amount });
    }
  }
  return [...byCounter.values()].flat().filter(({ amount }) => amount > 0);
}

/** A loop is better than `find` here, because `find` would allocate a closure for each amount. */
function sumOf(sums: readonly ConsumedSum[], generation: number, process: string): ConsumedSum | undefined {
  for (const sum of sums) if (sum.generation === generation && sum.process === process) return sum;
  return undefined;
}

/**
 * Returns SQL for the usage to add to each counter. All windows start at a full minute, so it's enough to group the
 * calls by minute. `spent` is the SQL that selects the rows and columns to count.
 */
const affectedCounters = (spent: string): string => `
  spent as (
    select project_id, key_id, source, date_trunc('minute', started_at, 'UTC') as minute, ${spent}
     group by 1, 2, 3, 4
  ), counted as (
    select c.id, sum(case when c.ceiling = 'cost' then spent.cost when c.ceiling = 'tpm' then spent.tokens
                           when c.ceiling = 'calls' and c.holder = 'key' then spent.key_slots else spent.slots end)::bigint as amount
      from spent
      left join virtual_keys k on k.id = spent.key_id
     cross join lateral (values ('key', coalesce(k.counted_as, spent.key_id)::text), ('source', spent.source), ('project', '')) as scope (holder, holder_id)
      join limit_counters c on c.project_id = spent.project_id and c.holder = scope.holder and c.holder_id = scope.holder_id
       and spent.minute >= c.window_start and (c.window_end is null or spent.minute < c.window_end)
     group by c.id
  )`;

const newCalls = affectedCounters(`
           count(*) filter (where vendor_called) as slots,
           count(*) filter (where vendor_called and takes_slot) as key_slots,
           coalesce(sum(cost_nanos), 0) as cost,
           coalesce(sum(tokens_input + tokens_cached_input + tokens_cache_write + tokens_cache_write_1h + tokens_output)
                      filter (where vendor_called), 0) as tokens
      from calls
     where id = any($1::uuid[])`);

/**
 * Locks the counters that the calls affect, and returns how much to add to each of them. If only a counter's lease
 * changes, that's 0.
 */
const lockAffected = (option: '' | 'skip locked'): string => `
  with ${newCalls}, affected as (
    select c.id, coalesce(counted.amount, 0) as amount from limit_counters c left join counted on counted.id = c.id
     where counted.id is not null or c.id = any($2::bigint[])
  ), locked as (
    select id from limit_counters where id in (select id from affected) order by id for update ${option}
  )
  select affected.id, affected.amount, locked.id is not null as "isLocked" from affected left join locked using (id)`;

const lockCounters = lockAffected('');
const tryLockCounters = lockAffected('skip locked');

const changedCosts = affectedCounters(`
           0 as slots, 0 as key_slots, sum(change.nanos) as cost, 0 as tokens
      from calls join unnest($1::uuid[], $2::bigint[]) as change (id, nanos) using (id)`);

const sumChanged = `
  with ${changedCosts}
  select id, amount from counted where amount <> 0 order by id`;

const addToCounters = `
  update limit_counters c set settled = c.settled + changed.amount
    from unnest($1::bigint[], $2::bigint[]) as changed (id, amount) where c.id = changed.id`;

/** Updates the counters and leases. Skips revoked leases, because they're no longer part of their counter. */
const countCalls = `
  with lowered as (
    update limit_leases l set amount = l.amount - consumed.amount, debited = l.debited + consumed.amount
      from unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[]) as consumed (process, counter_id, amount, generation)
     where l.process = consumed.process and l.counter_id = consumed.counter_id and l.generation = consumed.generation
    returning l.counter_id, consumed.amount
  ), returned as (
    select counter_id, sum(amount)::bigint as amount from lowered group by counter_id
  )
  update limit_counters c set settled = c.settled + counted.amount, leased = c.leased - coalesce(returned.amount, 0)
    from unnest($1::bigint[], $2::bigint[]) as counted (id, amount) left join returned on returned.counter_id = counted.id
   where c.id = counted.id`;
