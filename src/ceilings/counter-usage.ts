/** What is counted of a key's ceilings and of its project's month, for `/status/peek`: settled calls, and the estimates of running ones. */
import type { CeilingName } from '../core/windows.ts';
import type { Database } from '../db/database.ts';
import type { Admission } from './admission.ts';
import { countersOf, type Limits } from './counters.ts';

interface Use {
  readonly used: number;
  readonly reserved: number;
}

export interface ReadUseOptions {
  readonly database: Database;
  readonly admission: Pick<Admission, 'reservedOn'>;
  /** Of this process, whose reservations are known to the last call; others publish theirs once a second. */
  readonly process: string;
}

export function createReadUse({ database, admission, process }: ReadUseOptions) {
  /** Counters that nobody has asked for yet are left out. */
  return async function readUse(limits: Limits, epochMs: number): Promise<{ key: Partial<Record<CeilingName, Use>>; month?: Use }> {
    const counters = countersOf(limits, epochMs).filter(({ name }) => name.holder !== 'source');
    if (counters.length === 0) return { key: {} };
    const names = counters.map(({ name }) => name);
    const rows = await database.query<{ position: number; used: number; reserved: number }>(selectUse, [
      limits.projectId,
      names.map(({ holder }) => holder),
      names.map(({ holderId }) => holderId),
      names.map(({ ceiling }) => ceiling),
      names.map(({ window }) => window),
      names.map(({ start }) => new Date(start)),
      process,
    ]);
    const uses = rows.flatMap(({ position, used, reserved }) => {
      const name = names[position - 1];
      return name ? [{ name, use: { used, reserved: reserved + admission.reservedOn(name) } }] : [];
    });
    const month = uses.find(({ name }) => name.holder === 'project')?.use;
    const ofKey = uses.filter(({ name }) => name.holder === 'key');
    return { key: Object.fromEntries(ofKey.map(({ name, use }) => [name.ceiling, use])), ...(month && { month }) };
  };
}

const selectUse = `
  select asked.position, c.settled as used,
         (select coalesce(sum(l.reserved), 0)::bigint from limit_leases l where l.counter_id = c.id and l.process <> $7::uuid) as reserved
    from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
         with ordinality as asked (holder, holder_id, ceiling, window_kind, window_start, position)
    join limit_counters c on c.project_id = $1::uuid and c.holder = asked.holder and c.holder_id = asked.holder_id
     and c.ceiling = asked.ceiling and c.window_kind = asked.window_kind and c.window_start = asked.window_start`;
