import type { Queries } from '../../db/database.ts';

interface ItemBeginning {
  readonly id: string;
  readonly projectId: string;
  readonly text: string;
}

const maxLength = 200;

/**
 * Finds memories by id in any project, whether they're live or closed. Deleted memories are missing from the result.
 */
export function findItemBeginnings(queries: Queries, ids: readonly string[]): Promise<ItemBeginning[]> {
  if (ids.length === 0) return Promise.resolve([]);
  return queries.query<ItemBeginning>(
    `select id, project_id as "projectId", left(text, ${maxLength}) as text from memory_items where id = any($1::uuid[])`,
    [ids],
  );
}
