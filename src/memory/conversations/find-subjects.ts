/**
 * Finds the names of end users. Calls only contain a hash of the name, but the name is stored along with their text.
 */
import type { Queries } from '../../db/database.ts';

/**
 * To find an end user's name, we look at this many of their latest calls. If none of those has stored text, we only
 * know the hash.
 */
const latestCalls = 20;

/**
 * Looks up end users by the SHA-256 of their name (in hex). A hash is missing from the result if none of that end
 * user's latest calls has stored text.
 */
export async function findSubjects(queries: Queries, projectId: string, hashes: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (hashes.length === 0) return new Map();
  const rows = await queries.query<{ hash: string; subject: string }>(
    `select given.hash, stored.subject
       from unnest($2::text[]) as given (hash)
      cross join lateral (
        select t.subject
          from (
            select c.id from calls c
             where c.project_id = $1::uuid and c.subject_sha256 = decode(given.hash, 'hex') order by c.id desc limit ${latestCalls}
          ) as latest
          join call_texts t on t.call_id = latest.id and t.project_id = $1::uuid
         where t.subject is not null limit 1
      ) as stored`,
    [projectId, hashes],
  );
  return new Map(rows.map(({ hash, subject }) => [hash, subject]));
}
