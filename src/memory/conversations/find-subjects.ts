/** Finds the end users whose hashes the calls contain. */
import type { Queries } from '../../db/database.ts';

/** An end user whose latest calls have no text is only known by the hash. */
const latestCalls = 20;

/**
 * Returns the end users by the SHA-256 (in hex) that calls of the project have of them. Those whose text isn't stored are
 * missing.
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
