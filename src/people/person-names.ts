/** Finds out the names of people, e.g. of those who wrote a memory or started an erasure. */
import type { Queries } from '../db/database.ts';
import { shownEmailSql } from './confirm.ts';

/**
 * Returns the names of people by id, including disabled people. If somebody hasn't entered a name, we use the email
 * address. Deleted people are left out.
 */
export async function findPersonNames(queries: Queries, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await queries.query<{ id: string; name: string }>(
    `select id, case when name = '' then ${shownEmailSql} else name end as name from people where id = any($1::uuid[])`,
    [ids],
  );
  return new Map(rows.map(({ id, name }) => [id, name]));
}
