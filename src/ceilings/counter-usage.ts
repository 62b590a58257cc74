/** Reads how much of each counter is in use, which includes both settled calls and the reservations of running ones. */
import type { CeilingName } from '../core/windows.ts';
import type { Database } from '../db/database.ts';
import type { Admission } from './admission.ts';
import { type CounterKey, countersFor, formatCounterKey, type Limits } from './counters.ts';

/** Measured in calls, tokens or nano-dollars, depending on the ceiling. */
export interface CounterUsage {
  readonly used: number;
  readonly reserved: number;
}

export interface UsageReaderOptions {
  readonly database: Database;
  /**
   * Our own reservations come from here, so they're up to date. Those of other processes can be a second old, because
   * each process only publishes them once per second.
   */
  readonly admission: Pick<Admission, 'reservedFor'>;
  readonly process: string;
}

/** Returns the usage by counter (`formatCounterKey`). Counters that no call has used yet are missing. */
export type ReadCounters = (projectId: string, keys: readonly CounterKey[]) => Promise<ReadonlyMap<string, CounterUsage>>;

export function createCounterReader({ database, admission, process }: UsageReaderOptions): ReadCounters {
  return async (projectId, keys) => {
    if (keys.length === 0) return new Map();
    const rows = await database.query<{ position: number; used: number; reserved: number }>(selectUsage, [
      projectId,
      keys.map(({ scope }) => scope),
      keys.map(({ scopeId }) => scopeId),
      keys.map(({ ceiling }) => ceiling),
      keys.map(({ window }) => window),
      keys.map(({ start }) => new Date(start)),
      process,
    ]);
    const usages = rows.flatMap(({ position, used, reserved }): (readonly [string, CounterUsage])[] => {
      const key = keys[position - 1];
      return key ? [[formatCounterKey(key), { used, reserved: reserved + admission.reservedFor(key) }]] : [];
    });
    return new Map(usages);
  };
}

/**
 * Reads the usage of a key's ceilings and of its project's monthly cap. Counters that no call has used yet are missing.
 */
export function createUsageReader(readCounters: ReadCounters) {
  return async function readUsage(
    limits: Limits,
    epochMs: number,
  ): Promise<{ key: Partial<Record<CeilingName, CounterUsage>>; month?: CounterUsage }> {
    const keys = countersFor(limits, epochMs)
      .map(({ key }) => key)
      .filter(({ scope }) => scope !== 'source');
    const counted = await readCounters(limits.projectId, keys);
    const usages = keys.flatMap((key) => {
      const usage = counted.get(formatCounterKey(key));
      return usage ? [{ key, usage }] : [];
    });
    const month = usages.find(({ key }) => key.scope === 'project')?.usage;
    const keyUsages = usages.filter(({ key }) => key.scope === 'key');
    return { key: Object.fromEntries(keyUsages.map(({ key, usage }) => [key.ceiling, usage])), ...(month && { month }) };
  };
}

const selectUsage = `
  select requested.position, c.settled as used,
         (select coalesce(sum(l.reserved), 0)::bigint from limit_leases l where l.counter_id = c.id and l.process <> $7::uuid) as reserved
    from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
         with ordinality as requested (holder, holder_id, ceiling, window_kind, window_start, position)
    join limit_counters c on c.project_id = $1::uuid and c.holder = requested.holder and c.holder_id = requested.holder_id
     and c.ceiling = requested.ceiling and c.window_kind = requested.window_kind and c.window_start = requested.window_start`;
