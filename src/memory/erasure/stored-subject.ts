/**
 * Checks whether we store anything about an end user. This includes data that isn't listed anywhere in the console,
 * e.g. entities and votes.
 */
import type { Queries } from '../../db/database.ts';
import { bySubject, ofSubject, subjectTables } from './subject-tables.ts';

/** Looks for the profile page by the expression of its index. A subject has at most one. */
const byProfile = `kind = 'profile' and coalesce(subject, '') = $2::text`;

/**
 * Tables that have the subject itself. In all others, rows belong to a conversation or a call, and calls only have its
 * hash.
 */
const tables = subjectTables.filter(({ where }) => where === ofSubject);

/** Returns true if a table other than `calls` has a row of the subject. */
export async function isSubjectStored(queries: Queries, projectId: string, subject: string): Promise<boolean> {
  const conditions = tables.map(
    ({ table, oneRowPerSubject }) => `exists (select 1 from ${table} where ${ofSubject(oneRowPerSubject ? byProfile : bySubject)})`,
  );
  const [row] = await queries.query<{ stored: boolean }>(`select ${conditions.join(' or ')} as stored`, [projectId, subject]);
  return row?.stored ?? false;
}
