/**
 * Finds out when keys were last used. This takes one index lookup per key and partition, no matter how many calls there
 * are. We use `>=` and `<=` on purpose. With `key_id = given.id`, the planner scans all calls by id if most of them
 * come from a few keys, and for a key without calls it reads the whole table.
 */
import type { Queries } from '../db/database.ts';

/** Returns the start time of each key's latest stored call, by key id. Keys without calls are missing. */
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

export interface LastError {
  readonly callId: string;
  readonly at: number;
  readonly status: number;
  /** Null if the call failed without an error code. */
  readonly code: string | null;
}

/**
 * Returns each key's latest stored call that failed, by key id. Keys without failed calls are missing. The condition is
 * the same as in the index `calls_errors_by_key`, so that we don't read all the successful calls in between.
 */
export async function lastErrors(database: Queries, keyIds: readonly string[]): Promise<ReadonlyMap<string, LastError>> {
  const rows = await database.query<Omit<LastError, 'at'> & { keyId: string; startedAt: Date }>(
    `select given.id as "keyId", latest.id as "callId", latest.started_at as "startedAt", latest.status, latest.code
       from unnest($1::uuid[]) as given (id)
      cross join lateral (
        select id, started_at, status, code from calls
         where key_id >= given.id and key_id <= given.id and outcome not in ('ok', 'client_left')
         order by calls.key_id desc, calls.id desc limit 1
      ) as latest`,
    [keyIds],
  );
  return new Map(rows.map(({ keyId, startedAt, ...row }) => [keyId, { ...row, at: startedAt.getTime() }]));
}
