/** What is counted of a key's ceilings and of its project's month, for `/status/peek`: settled calls, and the estimates of running ones. */
import type { CeilingName } from '../core/windows.ts';
import type { Database } from '../db/database.ts';
import type { Admission } from './admission.ts';
import { countersFor, type Limits } from './counters.ts';

interface Usage {
  readonly used: number;
  readonly reserved: number;
}

export interface UsageReaderOptions {
  readonly database: Database;
  readonly admission: Pick<Admission, 'reservedFor'>;
  /** Of this process, whose reservations are known to the last call; others publish theirs once a second. */
  readonly process: string;
}

export function createUsageReader({ database, admission, process }: UsageReaderOptions) {
  /** Counters that nobody has asked for yet are left out. */
  return async function readUsage(limits: Limits, epochMs: number): Promise<{ key: Partial<Record<CeilingName, Usage>>; month?: Usage }> {
    const counters = countersFor(limits, epochMs).filter(({ key: name }) => name.scope !== 'source');
    if (counters.length === 0) return { key: {} };
    const keys = counters.map(({ key: name }) => name);
    const rows = await database.query<{ position: number; used: number; reserved: number }>(selectUsage, [
      limits.projectId,
      keys.map(({ scope: holder }) => holder),
      keys.map(({ scopeId: holderId }) => holderId),
      keys.map(({ ceiling }) => ceiling),
      keys.map(({ window }) => window),
      keys.map(({ start }) => new Date(start)),
      process,
    ]);
    const usages = rows.flatMap(({ position, used, reserved }) => {
      const name = keys[position - 1];
      return name ? [{ name, use: { used, reserved: reserved + admission.reservedFor(name) } }] : [];
    });
    const month = usages.find(({ name }) => name.scope === 'project')?.use;
    const keyUsages = usages.filter(({ name }) => name.scope === 'key');
    return { key: Object.fromEntries(keyUsages.map(({ name, use }) => [name.ceiling, use])), ...(month && { month }) };
  };
}

const selectUsage = `
  select asked.position, c.settled as used,
         (select coalesce(sum(l.reserved), 0)::bigint from limit_leases l where l.counter_id = c.id and l.process <> $7::uuid) as reserved
    from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
         with ordinality as asked (holder, holder_id, ceiling, window_kind, window_start, position)
    join limit_counters c on c.project_id = $1::uuid and c.holder = asked.holder and c.holder_id = asked.holder_id
     and c.ceiling = asked.ceiling and c.window_kind = asked.window_kind and c.window_start = asked.window_start`;
