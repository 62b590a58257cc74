/**
 * Finds out when keys were last used. This takes one index lookup per key and partition, no matter how many calls there
 * are.
 *
 * Don't simplify the pair of `>=` and `<=` to `=`. If most calls come from a few keys, the planner would then scan all
 * calls in the order of their ids. For a key without any calls, that means reading the whole table.
 */
import type { Queries } from '../db/database.ts';

/** Returns the start of the latest stored call of each key. Keys without calls are missing. */
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
  readonly code: string | null;
}

/**
 * Returns the latest stored call of each key that failed. Keys without failed calls are missing. The condition is the
 * same as in the index `calls_errors_by_key`, so that successful calls are skipped.
 */
export async function lastErrors(database: Queries, keyIds: readonly string[]): Promise<ReadonlyMap<string, LastError>> {
  const rows = await database.query<Omit<LastError, 'at'> & { keyId: string; startedAt: Date }>(
    `select given.id as "keyId", latest.id as "callId", latest.started_at as "startedAt", latest.status, latest.code
       from unnest($1::uuid[]) as given (id)
      cross join lateral (
        select id, started_at, status, code from calls
         where key_id >= given.id and key_id <= given.id and outcome not in ('ok', 'client_left')
         order by calls.key_id, calls.id desc limit 1
      ) as latest`,
    [keyIds],
  );
  return new Map(rows.map(({ keyId, startedAt, ...row }) => [keyId, { ...row, at: startedAt.getTime() }]));
}
