/** Reads the spending of individual keys from the rollups, with one index lookup per key and span. */
import type { Queries } from '../../db/database.ts';
import { type DeploymentFigures, readDeploymentFigures } from './deployment-figures.ts';
import type { Period } from './range.ts';

export type KeyUse = Pick<DeploymentFigures, 'calls' | 'errors' | 'costNanos'>;

/** Reads what each key has spent. Keys without calls are missing from the result. */
export async function readKeyUse(
  queries: Queries,
  projectId: string,
  { keyIds, ...period }: Period & { readonly keyIds: readonly string[] },
): Promise<ReadonlyMap<string, KeyUse>> {
  if (keyIds.length === 0) return new Map();
  const request = { ...period, projectIds: [projectId], scope: 'key', names: keyIds, limit: keyIds.length } as const;
  const rows = await readDeploymentFigures(queries, request);
  return new Map(rows.map(({ name, calls, errors, costNanos }) => [name ?? '', { calls, errors, costNanos }]));
}
