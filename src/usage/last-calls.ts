/**
 * Finds out when keys were last used, with one index lookup per key and partition, regardless of the number of calls.
 * The query uses `>=` and `<=` on purpose. With `key_id = given.id`, the planner scans all calls by id if a few keys
 * made most of them, and reads the whole table for a key without calls.
 */
import type { Queries } from '../db/database.ts';

/** Maps each key id to the start time of its latest stored call. Keys without calls are missing. */
export async function lastCalls(database: Queries, keyIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const rows = await database.query<{ keyId: string; startedAt: Date }>(
    `select given.id as "keyId", latest.started_at as "startedAt"
       from unnest($1::uuid[]) as given (id)
      cross join lateral (
        select started_at from calls where key_id >= given.id and key_id <= given.id order by calls.key_id, calls.id desc limit 1
      ) as latest`,
    [keyIds],
  );
  return new Map(rows.map(({ keyId, startedAt }) => [keyId, startedAt.getTime()]));
}
