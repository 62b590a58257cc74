/**
 * When keys were last used: one probe of the index (key_id, id) per key and partition, whatever the number of calls. With `key_id = given.id`
 * the planner prefers to read all calls by id when a few keys made most of them, which for a key without calls reads the whole table.
 */
import type { Queries } from '../db/database.ts';

/** Start of the latest stored call by key id; keys without a call are absent. */
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
