/** Looks up whether parts of prompts (`parts`) or their texts (`prompt_texts`) are already stored. */
import { toArrayLiteral, toArrayParameter } from '../../db/array-literal.ts';
import type { Queries } from '../../db/database.ts';
import { toBatches } from '../../db/row-batches.ts';
import type { Sha256 } from './chain.ts';

export interface StoredKey {
  readonly projectId: string;
  readonly hash: Sha256;
}

/** Looks up texts or parts by project and hash. Returns the keys of `requested` that are already in the database. */
export async function findStored(
  tx: Queries,
  table: 'prompt_texts' | 'parts',
  requested: ReadonlyMap<string, StoredKey>,
): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for (const slice of toBatches([...requested])) {
    const hashes = slice.map(([, { hash }]) => hash);
    const rows = await tx.query<{ position: number }>(
      `select requested.position::integer
         from unnest($1::bytea[], $2::uuid[]) with ordinality as requested (hash, project_id, position)
         join ${table} using (project_id, hash)`,
      [toArrayParameter('bytea', hashes), toArrayLiteral(slice, ([, { projectId }]) => projectId)],
    );
    for (const { position } of rows) {
      const key = slice[position - 1]?.[0];
      if (key !== undefined) found.add(key);
    }
  }
  return found;
}
