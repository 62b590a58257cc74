/**
 * Lists the keys with recent calls in any process. Uses an index on the sums of each project, so the number of calls
 * doesn't matter.
 */
import type { Queries } from '../db/database.ts';

/** Returns the keys with a call after `since`, most recently used first. */
export function listRecentKeys(queries: Queries, { since, limit }: { readonly since: Date; readonly limit: number }) {
  return queries.query<{ prefix: string; projectId: string }>(
    `select used.key_prefix as prefix, project.id as "projectId"
       from projects project
      cross join lateral (
        select key_prefix, max(start) as start
          from (select key_prefix, start from usage_rollups
                 where project_id = project.id and scope = 'key' and span = 'quarter'
                   and start >= date_bin('15 minutes', $1::timestamptz, '2000-01-01T00:00:00Z')
                union all
                select key_prefix, start from usage_increments
                 where project_id = project.id and scope = 'key' and start >= date_trunc('minute', $1::timestamptz)) part
         where key_prefix is not null
         group by key_prefix
      ) used
      order by used.start desc
      limit $2::integer`,
    [since, limit],
  );
}
