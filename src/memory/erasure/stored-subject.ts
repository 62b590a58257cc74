/**
 * Checks whether we store anything about an end user, including data that the console doesn't list anywhere, such as
 * entities and votes.
 */
import type { Queries } from '../../db/database.ts';
import { bySubject, ofSubject, subjectTables } from './subject-tables.ts';

/** A subject has at most one profile page. Keep the expression the same as in the index, so that PostgreSQL uses it. */
const byProfile = `kind = 'profile' and coalesce(subject, '') = $2::text`;

/**
 * We only have to search tables with a subject column. Rows of all other tables belong to a conversation or to a call,
 * and calls only contain a hash of the subject.
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
