/** Reads from the rollups how much individual keys have spent. This takes one index lookup per key and span. */
import type { Queries } from '../../db/database.ts';
import { selectRollupSums } from '../rollups/rollup-sums.ts';
import { createParameters } from './call-filter.ts';
import type { Period } from './range.ts';

export interface KeyUse {
  readonly calls: number;
  readonly errors: number;
  readonly costNanos: bigint;
}

/** Reads what each key has spent. Keys without calls are missing from the result. */
export async function readKeyUse(
  queries: Queries,
  projectId: string,
  { keyIds, ...period }: Period & { readonly keyIds: readonly string[] },
): Promise<ReadonlyMap<string, KeyUse>> {
  if (keyIds.length === 0) return new Map();
  const parameters = createParameters();
  const request = { projectId, scope: 'key', periods: [{ from: period.from, to: period.to }], names: keyIds } as const;
  const parts = selectRollupSums(request, ['calls', 'errors', 'cost_nanos'], parameters);
  const rows = await queries.query<{ id: string; calls: number; errors: number; cost: string }>(
    `select name as id, sum(calls)::bigint as calls, sum(errors)::bigint as errors, sum(cost_nanos)::text as cost
       from (${parts}) as part group by 1`,
    parameters.values,
  );
  return new Map(rows.map(({ id, calls, errors, cost }) => [id, { calls, errors, costNanos: BigInt(cost) }]));
}
