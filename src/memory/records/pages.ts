import type { Queries } from '../../db/database.ts';

export interface StoredPage {
  readonly subject: string | null;
  readonly text: string;
  readonly batchId: string | null;
  readonly updatedAt: Date;
}

/**
 * Finds the knowledge page if `subject` is null, and otherwise the profile page of that subject. Returns null if the
 * page doesn't exist.
 */
export async function findPage(queries: Queries, projectId: string, subject: string | null): Promise<StoredPage | null> {
  const [page] = await queries.query<StoredPage>(
    `select subject, text, batch_id as "batchId", updated_at as "updatedAt" from memory_pages
      where project_id = $1::uuid and kind = $2::text and coalesce(subject, '') = $3::text`,
    [projectId, subject === null ? 'knowledge' : 'profile', subject ?? ''],
  );
  return page ?? null;
}

/** Lists the subjects that have a profile page, in alphabetical order, and starts after the subject `after`. */
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
