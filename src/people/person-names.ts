/** Looks up the names of people by id, e.g. for the authors of memories and erasures. */
import type { Queries } from '../db/database.ts';
import { shownEmailSql } from './confirm.ts';

/**
 * Returns the names of the people who exist, including disabled ones. If a name is empty, the email takes its place.
 */
export async function findPersonNames(queries: Queries, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await queries.query<{ id: string; name: string }>(
    `select id, case when name = '' then ${shownEmailSql} else name end as name from people where id = any($1::uuid[])`,
    [ids],
  );
  return new Map(rows.map(({ id, name }) => [id, name]));
}
