/** Reads knowledge and profile pages for the console. */
import type { Queries } from '../../db/database.ts';

export interface StoredPage {
  /** Null on the project's knowledge page. */
  readonly subject: string | null;
  readonly text: string;
  readonly batchId: string | null;
  readonly updatedAt: Date;
}

/**
 * Returns the knowledge page if `subject` is null, or else the profile page of the subject. Null if there's no such
 * page.
 */
export async function findPage(queries: Queries, projectId: string, subject: string | null): Promise<StoredPage | null> {
  const [page] = await queries.query<StoredPage>(
    `select subject, text, batch_id as "batchId", updated_at as "updatedAt" from memory_pages
      where project_id = $1::uuid and kind = $2::text and coalesce(subject, '') = $3::text`,
    [projectId, subject === null ? 'knowledge' : 'profile', subject ?? ''],
  );
  return page ?? null;
}

/** Lists subjects that have a profile page in alphabetical order, starting after `after`. */
export function listProfiles(
  queries: Queries,
  projectId: string,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<{ readonly subject: string; readonly updatedAt: Date; readonly length: number }[]> {
  return queries.query(
    `select subject, updated_at as "updatedAt", length(text) as length from memory_pages
      where project_id = $1::uuid and kind = 'profile' and coalesce(subject, '') > $2::text
      order by coalesce(subject, '')
      limit $3::integer`,
    [projectId, after ?? '', limit],
  );
}
