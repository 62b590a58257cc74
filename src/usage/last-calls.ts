/**
 * Finds out when keys were last used. For each key and partition that's one lookup in an index, no matter how many
 * calls there are.
 *
 * Don't replace `>=` and `<=` by `=`. If most calls come from a few keys, the planner would scan all calls by id, and
 * for a key without any calls it would read the whole table.
 */
import type { Queries } from '../db/database.ts';

/** Returns when the latest stored call of each key started. Keys without calls are missing. */
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
  /** Null if there was no error code. */
  readonly code: string | null;
}

/**
 * Returns each key's latest failed call, of those that are already stored. Keys without failed calls are missing. The
 * index `calls_errors_by_key` has the same condition, so we don't have to go through all the successful calls.
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
