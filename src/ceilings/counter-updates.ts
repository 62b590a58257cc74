/**
 * Counts settled calls in the transaction that stores their rows, so that a counter's `settled` always equals the sum
 * over the call rows of its window. A call counts for every counter of its key, application and project, even if it had
 * no reservation on it.
 */
import type { SettledCall } from '../core/call.ts';
import type { CostAdjustment } from '../core/cost.ts';
import { toArrayLiteral } from '../db/array-literal.ts';
import type { Queries } from '../db/database.ts';
import { lockCounterCreation } from '../db/locks.ts';
import { toBatches, toColumns } from '../db/row-batches.ts';

/**
 * Counts `calls`, which `tx` has newly stored, and deducts their usage from the leases. This has to be the last step of
 * the transaction, because it locks rows that other processes need to acquire leases.
 */
export async function applyCalls(tx: Queries, calls: readonly SettledCall[]): Promise<void> {
  if (calls.length === 0) return;
  const ids = toArrayLiteral(calls, ({ metadata }) => metadata.id);
  const consumed = consumedBy(calls);
  const counters = toArrayLiteral(consumed, ({ counter }) => counter);
  await lockCounterCreation(tx, [...new Set(calls.map(({ metadata }) => metadata.projectId))], 'shared');
  // This is a separate statement because the next one has to see the rows as they are once we hold their locks.
  const locked = await tx.query<CounterSum>(lockCounters, [ids, counters]);
  if (locked.length === 0) return;
  await tx.query(countCalls, [...toColumns(locked, 'id', 'amount'), ...toColumns(consumed, 'process', 'counter', 'amount', 'generation')]);
}

/**
 * Applies up to 500 cost changes of stored calls to the counters. The reservations of these calls ended long ago. This
 * has to be the last step of the transaction `tx`, because it locks rows that other processes need to acquire leases.
 * Returns the change of each counter by its id.
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

interface ConsumedSum {
  readonly process: string;
  readonly counter: number;
  readonly generation: number;
  amount: number;
}

/** Sums up the usage per lease. */
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

/** A loop, because `find` would create a closure for each amount. */
function sumOf(sums: readonly ConsumedSum[], generation: number, process: string): ConsumedSum | undefined {
  for (const sum of sums) if (sum.generation === generation && sum.process === process) return sum;
  return undefined;
}

/**
 * Windows start at full minutes, so we count the calls of a minute together. `spent` selects the rows and what to
 * count.
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
 * Locks the affected counters and returns what the calls add to each. The amount is 0 for counters of which only the
 * leases change.
 */
const lockCounters = `
  with ${newCalls}
  select c.id, coalesce(counted.amount, 0) as amount from limit_counters c left join counted on counted.id = c.id
   where counted.id is not null or c.id = any($2::bigint[])
   order by c.id for update of c`;

const changedCosts = affectedCounters(`
           0 as slots, 0 as key_slots, sum(change.nanos) as cost, 0 as tokens
      from calls join unnest($1::uuid[], $2::bigint[]) as change (id, nanos) using (id)`);

const sumChanged = `
  with ${changedCosts}
  select id, amount from counted where amount <> 0 order by id`;

const addToCounters = `
  update limit_counters c set settled = c.settled + changed.amount
    from unnest($1::bigint[], $2::bigint[]) as changed (id, amount) where c.id = changed.id`;

/** Skips leases that have been revoked, because their counters no longer include them. */
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
