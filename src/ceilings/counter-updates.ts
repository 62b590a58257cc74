/**
 * Counts settled calls in the transaction that stores their rows, so that a counter's `settled` always equals the sum over the call rows of its
 * window. A call counts for every counter of its key, application and project, even if it had no reservation on it.
 */
import type { SettledCall } from '../core/call.ts';
import type { CostAdjustment } from '../core/cost.ts';
import type { Queries } from '../db/database.ts';
import { lockCounterCreation } from '../db/locks.ts';
import { toBatches, toColumns } from '../db/row-batches.ts';

/** Counts `calls`, which `tx` has newly stored, and deducts what they have used from the leases. */
export async function applyCalls(tx: Queries, calls: readonly SettledCall[]): Promise<void> {
  if (calls.length === 0) return;
  const ids = calls.map(({ metadata }) => metadata.id);
  const consumed = consumedBy(calls);
  const counters = consumed.map(({ counter }) => counter);
  await lockCounterCreation(tx, [...new Set(calls.map(({ metadata }) => metadata.projectId))], 'shared');
  // A separate statement: the next one must read the rows as they are once we hold their locks.
  const locked = await tx.query<CounterSum>(lockCounters, [ids, counters]);
  if (locked.length === 0) return;
  await tx.query(addToCounters, toColumns(locked, 'id', 'amount'));
  if (consumed.length > 0) {
    const [processes, amounts] = [consumed.map(({ process }) => process), consumed.map(({ amount }) => amount)];
    await tx.query(subtractFromLeases, [processes, counters, amounts, consumed.map(({ generation }) => generation)]);
  }
}

/** Corrections of the costs of stored calls, in one transaction. The reservations of these calls have ended long ago. */
export interface CostAdjustments {
  /** At most 500 adjustments. */
  add(changes: readonly CostAdjustment[]): Promise<void>;
  /** Updates the counters and returns how many have changed. Nothing may be added afterwards. */
  count(): Promise<number>;
}

/** Prevents the creation of counters of these projects until the transaction ends. Existing ones are not locked before `count`. */
export async function startCostAdjustment(tx: Queries, projectIds: readonly string[]): Promise<CostAdjustments> {
  await lockCounterCreation(tx, projectIds, 'shared');
  const sums = new Map<number, number>();
  return {
    async add(changes) {
      const nonZero = changes.filter(({ nanos }) => nanos !== 0);
      if (nonZero.length === 0) return;
      const columns = [nonZero.map(({ callId }) => callId), nonZero.map(({ nanos }) => nanos)];
      for (const { id, amount } of await tx.query<CounterSum>(sumChanged, columns)) sums.set(id, amount + (sums.get(id) ?? 0));
    },
    async count() {
      // In the order of ids across all statements, in which other transactions lock them too.
      const changed = [...sums].filter(([, amount]) => amount !== 0).toSorted(([one], [other]) => one - other);
      for (const batch of toBatches(changed)) {
        const ids = batch.map(([id]) => id);
        await tx.query('select id from limit_counters where id = any($1::bigint[]) order by id for update', [ids]);
        await tx.query(addToCounters, [ids, batch.map(([, amount]) => amount)]);
      }
      return changed.length;
    },
  };
}

/** Updates counters by at most 500 changes of the costs of stored calls, in the transaction `tx`. */
export async function applyCostAdjustments(tx: Queries, changes: readonly CostAdjustment[]): Promise<void> {
  const nonZero = changes.filter(({ nanos }) => nanos !== 0);
  if (nonZero.length === 0) return;
  const projects = await tx.query<{ id: string }>('select distinct project_id as id from calls where id = any($1::uuid[])', [
    nonZero.map(({ callId }) => callId),
  ]);
  const costs = await startCostAdjustment(
    tx,
    projects.map(({ id }) => id),
  );
  await costs.add(nonZero);
  await costs.count();
}

interface CounterSum {
  readonly id: number;
  readonly amount: number;
}

interface Consumed {
  readonly process: string;
  readonly counter: number;
  readonly generation: number;
  readonly amount: number;
}

/** Sums by lease. */
function consumedBy(calls: readonly SettledCall[]): Consumed[] {
  const sums = new Map<string, Consumed>();
  for (const { result } of calls) {
    for (const { counter, generation, amount } of result.consumed?.amounts ?? []) {
      const process = result.consumed?.process ?? '';
      const key = `${process} ${counter} ${generation}`;
      sums.set(key, { process, counter, generation, amount: amount + (sums.get(key)?.amount ?? 0) });
    }
  }
  return [...sums.values()].filter(({ amount }) => amount > 0);
}

/** Windows start at full minutes, so calls of a minute are counted together. `spent` selects what is counted. */
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

/** With what the calls add to each; 0 for counters that only their leases concern. */
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
  select id, amount from counted where amount <> 0`;

const addToCounters = `
  update limit_counters c set settled = c.settled + changed.amount
    from unnest($1::bigint[], $2::bigint[]) as changed (id, amount) where c.id = changed.id`;

/** Skips leases that have been revoked: their counters no longer include them. */
const subtractFromLeases = `
  with consumed as (
    select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) as consumed (process, counter_id, amount, generation)
  ), lowered as (
    update limit_leases l set amount = l.amount - consumed.amount
      from consumed
     where l.process = consumed.process and l.counter_id = consumed.counter_id and l.generation = consumed.generation
    returning l.counter_id, consumed.amount
  )
  update limit_counters c set leased = c.leased - lowered.amount
    from (select counter_id, sum(amount)::bigint as amount from lowered group by counter_id) as lowered
   where c.id = lowered.counter_id`;
