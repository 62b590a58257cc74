/** What keys and applications used lately, from which the console predicts when a ceiling is reached. */
import { minIdAt } from '../../core/ids.ts';
import type { Queries } from '../../db/database.ts';
import type { Period } from './range.ts';

export interface Use {
  /** Calls that count against ceilings. */
  readonly calls: number;
  /** Nano-dollars. */
  readonly cost: number;
}

export interface RecentUse {
  readonly project: Use;
  /** By id under which the usage of a key is counted. */
  readonly keys: ReadonlyMap<string, Use>;
  readonly applications: ReadonlyMap<string, Use>;
}

export async function readRecentUse(queries: Queries, projectId: string, { from, to }: Period): Promise<RecentUse> {
  const rows = await queries.query<
    Use & { readonly kind: number; readonly slots: number; readonly keyId: string | null; readonly source: string | null }
  >(
    `select grouping(quota_key.id, c.source) as kind, quota_key.id as "keyId", c.source,
            count(*) filter (where c.vendor_called) as calls, count(*) filter (where c.vendor_called and c.takes_slot) as slots,
            coalesce(sum(c.cost_nanos), 0)::bigint as cost
       from calls c
       left join lateral (select coalesce(k.counted_as, k.id) as id from virtual_keys k where k.id = c.key_id) as quota_key on true
      where c.project_id = $1::uuid and c.id >= $2::uuid and c.id < $3::uuid
      group by grouping sets ((), (quota_key.id), (c.source))`,
    [projectId, minIdAt(from), minIdAt(to)],
  );
  const toUse = ({ calls, cost }: Use): Use => ({ calls, cost });
  const total = rows.find(({ kind }) => kind === 0b11);
  return {
    project: total ? toUse(total) : { calls: 0, cost: 0 },
    keys: new Map(
      rows.flatMap(({ kind, keyId, slots, cost }) => (kind === 0b01 && keyId !== null ? [[keyId, { calls: slots, cost }]] : [])),
    ),
    applications: new Map(rows.flatMap((row) => (row.kind === 0b10 && row.source !== null ? [[row.source, toUse(row)]] : []))),
  };
}
