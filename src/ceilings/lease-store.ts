/**
 * The tables `limit_counters` and `limit_leases`: counters are made, and slices of them leased, given back and written off. Every statement
 * that changes a lease holds the row of its counter first, and several of them in the order of their ids, so that none waits in a circle.
 */
import { minIdAt } from '../core/ids.ts';
import type { Database, Queries } from '../db/database.ts';
import type { CounterKey, CounterScope } from './counters.ts';

export interface AcquireRequest {
  readonly process: string;
  readonly generation: number;
  /** The process holds something by this generation: where its row is gone, it was written off. */
  readonly isLeaseExpected: boolean;
  readonly counter: CounterKey;
  readonly limit: number;
  /** The least that is of use: less than this is only leased when `alone`. */
  readonly need: number;
  /** What all waiting calls need. */
  readonly demand: number;
  /** Usual size of a slice; it shrinks to a tenth of what is left. */
  readonly defaultGrant: number;
  /** Nothing of this process's slice is reserved: where no other process holds anything either, all that is left is leased, however little. */
  readonly takesRemainder: boolean;
}

export interface LeaseGrant {
  /** Id of the counter. */
  readonly id: number;
  readonly granted: number;
  /** What other processes hold. */
  readonly others: number;
}

/** A lease of a process, by its counter's row. */
export interface LeaseKey {
  readonly process: string;
  readonly id: number;
  readonly generation: number;
}

export interface LeaseRow {
  readonly process: string;
  readonly counters: number;
  readonly oldestWindow: Date;
}

export interface LeaseStore {
  /** Raises the lease of the process by what its need and the ceiling allow; makes the counter when it is not there. Null: it was written off. */
  acquire(request: AcquireRequest): Promise<LeaseGrant | null>;
  release(lease: LeaseKey, amount: number): Promise<void>;
  /** Sets the lease to at most `amount`: after a statement of which nobody knows whether it was done. False: there is no such lease. */
  reconcile(lease: LeaseKey, amount: number): Promise<boolean>;
  /** Gives up the lease. */
  remove(lease: LeaseKey): Promise<void>;
  /** Says what the running calls of the process hold. */
  publish(process: string, reserved: ReadonlyMap<number, number>): Promise<void>;
  /** Asks all processes to give back what is free of their slices. */
  requestReturn(process: string, id: number): Promise<void>;
  /** Gives up all leases of a process; returns how many there were. */
  revokeAll(process: string): Promise<number>;
  list(): Promise<LeaseRow[]>;
}

/** Carries `<process> <counter id>`: give back what is free. */
export const quotaReturnChannel = 'gateway_limits';

/** Second argument of the project's advisory lock: another lock than that of erasure (journal/batch-store.ts). */
const lockSeed = 1;

export function createLeaseStore(database: Database): LeaseStore {
  return {
    async acquire(request) {
      const raised = await acquireExisting(database, request);
      if (raised !== undefined) return raised;
      await createCounter(database, request.counter);
      const again = await acquireExisting(database, request);
      if (again === undefined) throw new Error('a counter that was just made is not there');
      return again;
    },
    async release({ process, id, generation }, amount) {
      await database.query(
        `with counter as (
           select id from limit_counters where id = $2::bigint for update
         ), lowered as (
           update limit_leases l set amount = l.amount - $3::bigint
             from counter where l.counter_id = counter.id and l.process = $1::uuid and l.generation = $4::bigint
           returning l.counter_id
         )
         update limit_counters c set leased = c.leased - $3::bigint from lowered where c.id = lowered.counter_id`,
        [process, id, amount, generation],
      );
    },
    reconcile: ({ process, id, generation }, amount) =>
      database.transaction(async (tx) => {
        await tx.query('select 1 from limit_counters where id = $1::bigint for update', [id]);
        const rows = await tx.query(
          `with before as (
             select amount from limit_leases where counter_id = $1::bigint and process = $2::uuid and generation = $4::bigint
           ), after as (
             update limit_leases set amount = least(amount, $3::bigint)
              where counter_id = $1::bigint and process = $2::uuid and generation = $4::bigint
           )
           update limit_counters set leased = leased - greatest(0, before.amount - $3::bigint) from before where id = $1::bigint
           returning id`,
          [id, process, amount, generation],
        );
        return rows.length > 0;
      }),
    async remove({ process, id, generation }) {
      await database.transaction(async (tx) => {
        await tx.query('select 1 from limit_counters where id = $1::bigint for update', [id]);
        await tx.query(
          `with gone as (
             delete from limit_leases where counter_id = $1::bigint and process = $2::uuid and generation = $3::bigint returning amount
           )
           update limit_counters set leased = leased - gone.amount from gone where id = $1::bigint`,
          [id, process, generation],
        );
      });
    },
    async publish(process, reserved) {
      // Never waits: a drain of this process may hold some of the rows, and would then wait for others in turn.
      await database.query(
        `with given as (
           select * from unnest($2::bigint[], $3::bigint[]) as given (id, reserved)
         ), mine as (
           select l.counter_id from limit_leases l join given on given.id = l.counter_id where l.process = $1::uuid for update of l skip locked
         )
         update limit_leases l set reserved = given.reserved from given join mine on mine.counter_id = given.id
          where l.counter_id = given.id and l.process = $1::uuid`,
        [process, [...reserved.keys()], [...reserved.values()]],
      );
    },
    async requestReturn(process, id) {
      await database.query('select pg_notify($1::text, $2::text)', [quotaReturnChannel, `${process} ${id}`]);
    },
    revokeAll: (process) => database.transaction((tx) => revokeLeases(tx, process)),
    list: () =>
      database.query<LeaseRow>(
        `select l.process, count(*) as counters, min(c.window_start) as "oldestWindow"
           from limit_leases l join limit_counters c on c.id = l.counter_id
          group by l.process order by l.process`,
      ),
  };
}

/** In the transaction `tx`; returns how many there were. */
export async function revokeLeases(tx: Queries, process: string): Promise<number> {
  await tx.query(
    `select 1 from limit_counters
      where id in (select counter_id from limit_leases where process = $1::uuid) order by id for update`,
    [process],
  );
  const rows = await tx.query(
    `with gone as (delete from limit_leases where process = $1::uuid returning counter_id, amount)
     update limit_counters c set leased = c.leased - gone.amount from gone where c.id = gone.counter_id returning c.id`,
    [process],
  );
  return rows.length;
}

/** Undefined: there is no such counter yet. Null: the lease was written off. */
async function acquireExisting(queries: Queries, request: AcquireRequest): Promise<LeaseGrant | null | undefined> {
  const {
    process,
    generation,
    isLeaseExpected: isHeld,
    counter,
    limit,
    need,
    demand,
    defaultGrant: slice,
    takesRemainder: alone,
  } = request;
  const values = [...counterKeyValues(counter), process, limit, need, demand, slice, alone, generation, isHeld];
  const [raised] = await queries.query<LeaseGrant & { readonly isLost: boolean }>(acquireLease, values);
  return raised?.isLost ? null : raised;
}

/** The counter and the own lease are read as rows locked for update: as they are, not as they were when the statement began to wait. */
const acquireLease = `
  with counter as (
    select id, leased, $8::bigint - settled - leased as remaining
      from limit_counters
     where project_id = $1::uuid and holder = $2::text and holder_id = $3::text and ceiling = $4::text
       and window_kind = $5::text and window_start = $6::timestamptz
       for update
  ), own as (
    select l.amount, l.generation from limit_leases l join counter on l.counter_id = counter.id where l.process = $7::uuid for update of l
  ), answer as (
    select id, leased - coalesce((select amount from own), 0) as others, remaining,
           $14::boolean and not exists (select 1 from own where generation = $13::bigint) as lost
      from counter
  ), granted as (
    select id, others, lost,
           case when lost then 0
                when remaining >= $9::bigint
                then least(remaining, greatest(least($10::bigint, greatest($11::bigint, $9::bigint)), least($11::bigint, remaining / 10)))
                when $12::boolean and others = 0 then greatest(0, remaining)
                else 0 end as amount
      from answer
  ), raised as (
    update limit_counters c set leased = c.leased + granted.amount from granted where c.id = granted.id and granted.amount > 0
  ), lease as (
    insert into limit_leases (counter_id, process, amount, generation)
    select id, $7::uuid, amount, $13::bigint from granted where amount > 0
    on conflict (counter_id, process) do update set amount = limit_leases.amount + excluded.amount, generation = excluded.generation
  )
  select id, amount as granted, others, lost as "isLost" from granted`;

/**
 * A counter begins with what its window's call rows count for: a ceiling that is set in mid-month counts the calls before it. The lock keeps
 * drains from storing calls of the project between the sum and the row.
 */
async function createCounter(database: Database, counter: CounterKey): Promise<void> {
  const { projectId, scopeId, scope, ceiling, start, end } = counter;
  await database.transaction(async (tx) => {
    await tx.query(`select pg_advisory_xact_lock(hashtextextended($1::text, ${lockSeed}))`, [projectId]);
    await tx.query(
      `insert into limit_counters (project_id, holder, holder_id, ceiling, window_kind, window_start, window_end, settled)
       select $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::timestamptz, $7::timestamptz, coalesce(${usageColumns[ceiling]}, 0)
         from calls
        where project_id = $1::uuid and ${scopeConditions[scope]} and id >= $9::uuid and ($10::uuid is null or id < $10::uuid)
       on conflict do nothing`,
      [...counterKeyValues(counter), end === null ? null : new Date(end), scopeId, minIdAt(start), end === null ? null : minIdAt(end)],
    );
  });
}

function counterKeyValues({ projectId, scope, scopeId, ceiling, window, start }: CounterKey): unknown[] {
  return [projectId, scope, scopeId, ceiling, window, new Date(start)];
}

const scopeConditions: Readonly<Record<CounterScope, string>> = {
  key: 'key_id = any(array(select $8::uuid union all select id from virtual_keys where counted_as = $8::uuid))',
  source: 'source = $8::text',
  // Every statement uses each of its parameters.
  project: `$8::text = ''`,
};

const callCount = 'count(*) filter (where vendor_called)';

/** By the rule of `core/spending.ts`, over call rows. */
const usageColumns = {
  calls: callCount,
  rpm: callCount,
  cost: 'sum(cost_nanos)::bigint',
  tpm: `sum(tokens_input + tokens_cached_input + tokens_cache_write + tokens_cache_write_1h + tokens_output) filter (where vendor_called)::bigint`,
};

/** Waits until no counter of these projects is being made, and keeps others from it until the transaction ends. In order, against deadlocks. */
export async function lockCounterCreation(tx: Queries, projectIds: readonly string[]): Promise<void> {
  await tx.query(
    `select pg_advisory_xact_lock_shared(hashtextextended(project.id, ${lockSeed}))
       from unnest($1::text[]) with ordinality as project (id, position)
      order by project.position`,
    [projectIds.toSorted()],
  );
}
