/**
 * Reads the recent usage of keys and applications, from which the console predicts when they'll reach a ceiling.
 */
import type { Queries } from '../../db/database.ts';
import { type Scope, selectRollupSums } from '../rollups/rollup-sums.ts';
import { createParameters } from './call-filter.ts';
import type { Period } from './range.ts';

export interface Use {
  /** Only includes calls that count against ceilings. */
  readonly calls: number;
  /** In nano-dollars. */
  readonly cost: number;
}

export interface RecentUse {
  readonly project: Use;
  /** Maps quota keys to their recent usage. Virtual keys that share a quota have a single entry. */
  readonly keys: ReadonlyMap<string, Use>;
  readonly applications: ReadonlyMap<string, Use>;
}

export async function readRecentUse(queries: Queries, projectId: string, period: Period): Promise<RecentUse> {
  const [project, keys, applications] = await Promise.all([
    readUses(queries, projectId, 'project', period),
    readUses(queries, projectId, 'key', period),
    readUses(queries, projectId, 'source', period),
  ]);
  const toUse = ({ calls, cost }: Use): Use => ({ calls, cost });
  return {
    project: project[0] ? toUse(project[0]) : { calls: 0, cost: 0 },
    keys: new Map(keys.flatMap(({ id, slots, cost }) => (id === null ? [] : [[id, { calls: slots, cost }]]))),
    applications: new Map(applications.flatMap((row) => (row.id === null ? [] : [[row.id, toUse(row)]]))),
  };
}

function readUses(queries: Queries, projectId: string, scope: Scope, period: Period) {
  const parameters = createParameters();
  const parts = selectRollupSums({ projectId, scope, periods: [period] }, ['vendor_calls', 'slots', 'cost_nanos'], parameters);
  const quotaKey = '(select coalesce(k.counted_as, k.id)::text from virtual_keys k where k.id = part.name::uuid)';
  return queries.query<Use & { readonly id: string | null; readonly slots: number }>(
    `select ${scope === 'key' ? quotaKey : 'part.name'} as id, sum(vendor_calls)::bigint as calls, sum(slots)::bigint as slots,
            sum(cost_nanos)::bigint as cost
       from (select name, sum(vendor_calls) as vendor_calls, sum(slots) as slots, sum(cost_nanos) as cost_nanos
               from (${parts}) as part group by name) as part
      group by 1`,
    parameters.values,
  );
}
