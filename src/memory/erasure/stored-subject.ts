/**
 * Checks whether we store anything about an end user, including data that the console doesn't list anywhere, such as
 * entities and votes.
 */
import type { Queries } from '../../db/database.ts';
import { bySubject, ofSubject, subjectTables } from './subject-tables.ts';

/**
 * Finds a subject's profile page, of which there's at most one. The expression is the same as in the index, so
 * PostgreSQL can use it.
 */
const byProfile = `kind = 'profile' and coalesce(subject, '') = $2::text`;

/**
 * Tables that have a column for the subject. We don't need the others. Their rows belong to a conversation or a call,
 * and calls only contain the subject's hash.
 */
const tables = subjectTables.filter(({ where }) => where === ofSubject);

/** Checks whether any table except `calls` has a row of the subject. */
export async function isSubjectStored(queries: Queries, projectId: string, subject: string): Promise<boolean> {
  const conditions = tables.map(
    ({ table, oneRowPerSubject }) => `exists (select 1 from ${table} where ${ofSubject(oneRowPerSubject ? byProfile : bySubject)})`,
  );
  const [row] = await queries.query<{ stored: boolean }>(`select ${conditions.join(' or ')} as stored`, [projectId, subject]);
  return row?.stored ?? false;
}
