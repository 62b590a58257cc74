import type { Queries } from '../db/database.ts';
import { shownEmailSql } from './confirm.ts';

/**
 * Returns the names of people by id, including disabled people. Somebody without a name is listed with their email
 * address. Deleted people are missing from the result.
 */
export async function findPersonNames(queries: Queries, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await queries.query<{ id: string; name: string }>(
    `select id, case when name = '' then ${shownEmailSql} else name end as name from people where id = any($1::uuid[])`,
    [ids],
  );
  return new Map(rows.map(({ id, name }) => [id, name]));
}
