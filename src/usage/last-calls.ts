/** When keys were last used: one index probe per key and partition, whatever the number of calls. */
import type { Queries } from '../db/database.ts';

/** Start of the latest stored call by key id; keys without a call are absent. */
export async function lastCalls(database: Queries, keyIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const rows = await database.query<{ keyId: string; startedAt: Date }>(
    `select given.id as "keyId", latest.started_at as "startedAt"
       from unnest($1::uuid[]) as given (id)
      cross join lateral (select started_at from calls where key_id = given.id order by calls.id desc limit 1) as latest`,
    [keyIds],
  );
  return new Map(rows.map(({ keyId, startedAt }) => [keyId, startedAt.getTime()]));
}
