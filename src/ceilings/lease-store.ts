/**
 * Creates counters and acquires, releases and revokes leases, in the tables `limit_counters` and `limit_leases`. To
 * prevent deadlocks, every statement that changes a lease locks its counter's row first, and statements that lock
 * several counters do so in the order of their ids.
 */
import type { Database, Queries } from '../db/database.ts';
import { createSlotsByKey } from '../db/query-slots.ts';
import type { CounterKey } from './counters.ts';
import { counterKeyValues, createCounter, limitLockWait } from './create-counter.ts';

export interface AcquireRequest {
  readonly process: string;
  readonly generation: number;
  /**
   * True if the process believes that it holds a lease of this generation. If there's none in the database, it has been
   * revoked.
   */
  readonly isLeaseExpected: boolean;
  readonly counter: CounterKey;
  readonly limit: number;
  /** The smallest amount that is of use to the process. The database only grants less if `takesRemainder` is set. */
  readonly need: number;
  readonly demand: number;
  /**
   * The most that the process leases at a time, even if its waiting calls together need more. Only a larger `need`
   * overrides this. If no call is waiting, the database grants at most a tenth of what's left. If another process is
   * asking for quota, it grants no more than `need`.
   */
  readonly defaultGrant: number;
  /**
   * If this is true and no other process holds any quota, the database grants everything that's left, even if it's less
   * than `need`. Only set this if the process has no reservations.
   */
  readonly takesRemainder: boolean;
}

export interface LeaseGrant {
  readonly counterId: number;
  readonly granted: number;
  readonly heldByOthers: number;
}

export interface LeaseKey {
  readonly projectId: string;
  readonly process: string;
  readonly counterId: number;
  readonly generation: number;
}

export interface LeaseRow {
  readonly process: string;
  readonly counters: number;
  readonly oldestWindow: Date;
}

export interface LeaseStore {
  /**
   * Enlarges a lease as far as the ceiling allows, and creates the counter if it doesn't exist. Returns null if the
   * lease has been revoked.
   */
  acquire(request: AcquireRequest): Promise<LeaseGrant | null>;
  release(lease: LeaseKey, amount: number): Promise<void>;
  /**
   * Changes the lease in the database to what the process really holds. Call this if you don't know whether a statement
   * was executed. Returns false if there's no such lease.
   *
   * The process may not know yet that some of its calls have been stored. Their usage is then still included in `held`,
   * although the database has already debited it from the lease. That's why the process passes the total `debited` that
   * it knows about, and the database subtracts whatever it has debited beyond that.
   */
  reconcile(lease: LeaseKey, held: number, debited: number): Promise<boolean>;
  remove(lease: LeaseKey): Promise<void>;
  /** Publishes how much quota the running calls of a process have reserved, by counter id. */
  publish(process: string, reserved: ReadonlyMap<number, number>): Promise<void>;
  /**
   * Notifies other processes that we need quota of a counter. For two seconds, they can also find the request through
   * `returnRequests`.
   */
  requestReturn(lease: LeaseKey): Promise<void>;
  /** Returns the ids of counters for which another process has requested quota within the last two seconds. */
  returnRequests(process: string, counterIds: readonly number[]): Promise<number[]>;
  revokeAll(process: string): Promise<number>;
  list(): Promise<LeaseRow[]>;
}

/** The payload of a notification is `<requesting process> <counter id>`. */
export const quotaReturnChannel = 'gateway_limits';

/**
 * How many statements of a project may wait for locks at the same time. This leaves connections for other projects if a
 * project's counters are locked.
 */
const slotsPerProject = 2;

const isRequestedByOthers = (process: string): string =>
  `return_requested_by <> ${process}::uuid and return_requested_at > now() - interval '2 seconds'`;

export function createLeaseStore(database: Database): LeaseStore {
  const slots = createSlotsByKey(slotsPerProject);
  const acquire = async (request: AcquireRequest): Promise<LeaseGrant | null> => {
    const grant = await acquireExisting(database, request);
    if (grant !== undefined) return grant;
    await createCounter(database, request.counter);
    const second = await acquireExisting(database, request);
    if (second === undefined) throw new Error('expected to find the counter that was just inserted');
    return second;
  };
  return {
    acquire: (request) => slots.run(request.counter.projectId, () => acquire(request)),
    release: ({ projectId, process, counterId, generation }, amount) =>
      slots.run(projectId, async () => {
        await database.query(
          `with settings as materialized (${limitLockWait}), counter as (
             select id from limit_counters, settings where id = $2::bigint for update of limit_counters
           ), released as (
             update limit_leases l set amount = l.amount - $3::bigint
               from counter where l.counter_id = counter.id and l.process = $1::uuid and l.generation = $4::bigint
             returning l.counter_id
           )
           update limit_counters c set leased = c.leased - $3::bigint from released where c.id = released.counter_id`,
          [process, counterId, amount, generation],
        );
      }),
    reconcile: ({ projectId, process, counterId, generation }, held, debited) =>
      slots.run(projectId, () =>
        database.transaction(async (tx) => {
          await lockCounter(tx, counterId);
          const rows = await tx.query(
            `with before as (
               select greatest(0, amount - ($3::bigint - debited + $5::bigint)) as excess
                 from limit_leases where counter_id = $1::bigint and process = $2::uuid and generation = $4::bigint
             ), after as (
               update limit_leases l set amount = l.amount - before.excess from before
                where l.counter_id = $1::bigint and l.process = $2::uuid and l.generation = $4::bigint
             )
             update limit_counters set leased = leased - before.excess from before where id = $1::bigint
             returning id`,
            [counterId, process, held, generation, debited],
          );
          return rows.length > 0;
        }),
      ),
    remove: ({ projectId, process, counterId, generation }) =>
      slots.run(projectId, () =>
        database.transaction(async (tx) => {
          await lockCounter(tx, counterId);
          await tx.query(
            `with deleted as (
               delete from limit_leases where counter_id = $1::bigint and process = $2::uuid and generation = $3::bigint returning amount
             )
             update limit_counters set leased = leased - deleted.amount from deleted where id = $1::bigint`,
            [counterId, process, generation],
          );
        }),
      ),
    async publish(process, reserved) {
      // Skip locked rows, because waiting for them could cause a deadlock with a journal drain of this process.
      await database.query(
        `with requested as (
           select * from unnest($2::bigint[], $3::bigint[]) as requested (id, reserved)
         ), locked as (
           select l.counter_id from limit_leases l join requested on requested.id = l.counter_id where l.process = $1::uuid for update of l skip locked
         )
         update limit_leases l set reserved = requested.reserved from requested join locked on locked.counter_id = requested.id
          where l.counter_id = requested.id and l.process = $1::uuid`,
        [process, [...reserved.keys()], [...reserved.values()]],
      );
    },
    requestReturn: ({ projectId, process, counterId }) =>
      slots.run(projectId, async () => {
        await database.query(
          `with settings as materialized (${limitLockWait}), requested as (
             update limit_counters set return_requested_at = now(), return_requested_by = $1::uuid from settings where id = $2::bigint
           )
           select pg_notify($3::text, $4::text)`,
          [process, counterId, quotaReturnChannel, `${process} ${counterId}`],
        );
      }),
    async returnRequests(process, counterIds) {
      const rows = await database.query<{ id: number }>(
        `select id from limit_counters
          where id = any($1::bigint[]) and ${isRequestedByOthers('$2')}`,
        [counterIds, process],
      );
      return rows.map(({ id }) => id);
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

async function lockCounter(tx: Queries, counterId: number): Promise<void> {
  await tx.query(
    `with settings as materialized (${limitLockWait}) select 1 from limit_counters, settings where id = $1::bigint for update of limit_counters`,
    [counterId],
  );
}

export async function revokeLeases(tx: Queries, process: string): Promise<number> {
  await tx.query(
    `select 1 from limit_counters
      where id in (select counter_id from limit_leases where process = $1::uuid) order by id for update`,
    [process],
  );
  const rows = await tx.query(
    `with deleted as (delete from limit_leases where process = $1::uuid returning counter_id, amount)
     update limit_counters c set leased = c.leased - deleted.amount from deleted where c.id = deleted.counter_id returning c.id`,
    [process],
  );
  return rows.length;
}

/**
 * Acquires quota if the counter exists, and returns undefined if it doesn't. Returns null if the lease has been
 * revoked.
 */
async function acquireExisting(queries: Queries, request: AcquireRequest): Promise<LeaseGrant | null | undefined> {
  const { process, generation, isLeaseExpected, counter, limit, need, demand, defaultGrant, takesRemainder } = request;
  const values = [
    ...counterKeyValues(counter),
    ...[process, limit, need, demand, defaultGrant, takesRemainder, generation, isLeaseExpected],
  ];
  const [row] = await queries.query<LeaseGrant & { readonly isLost: boolean }>(acquireLease, values);
  return row?.isLost ? null : row;
}

/**
 * Because of `for update`, we see the counter and the lease as they are once we have the locks. If another process is
 * requesting quota, we don't grant more than `need`.
 */
const acquireLease = `
  with settings as materialized (${limitLockWait}), counter as (
    select id, leased, $8::bigint - settled - leased as remaining,
           case when ${isRequestedByOthers('$7')} then 0 else $11::bigint end as usual
      from limit_counters, settings
     where project_id = $1::uuid and holder = $2::text and holder_id = $3::text and ceiling = $4::text
       and window_kind = $5::text and window_start = $6::timestamptz
       for update of limit_counters
  ), lease as (
    select l.amount, l.generation from limit_leases l join counter on l.counter_id = counter.id where l.process = $7::uuid for update of l
  ), state as (
    select id, leased - coalesce((select amount from lease), 0) as held_by_others, remaining, usual,
           $14::boolean and not exists (select 1 from lease where generation = $13::bigint) as lost
      from counter
  ), granted as (
    select id, held_by_others, lost,
           case when lost then 0
                when remaining >= $9::bigint
                then least(remaining, greatest(least($10::bigint, greatest(usual, $9::bigint)), least(usual, remaining / 10)))
                when $12::boolean and held_by_others = 0 then greatest(0, remaining)
                else 0 end as amount
      from state
  ), updated_counter as (
    update limit_counters c set leased = c.leased + granted.amount from granted where c.id = granted.id and granted.amount > 0
  ), updated_lease as (
    insert into limit_leases (counter_id, process, amount, generation)
    select id, $7::uuid, amount, $13::bigint from granted where amount > 0
    on conflict (counter_id, process) do update
       set amount = limit_leases.amount + excluded.amount, generation = excluded.generation,
           debited = case when limit_leases.generation = excluded.generation then limit_leases.debited else 0 end
  )
  select id as "counterId", amount as granted, held_by_others as "heldByOthers", lost as "isLost" from granted`;
