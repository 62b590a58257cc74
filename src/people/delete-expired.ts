import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { sessionIdleMs } from './sessions.ts';

/**
 * Deletes expired sessions, sign-in links and failure counts, and returns how many there were. There are never many, so
 * a single statement is enough.
 */
export async function deleteExpiredSignIns(database: Database, clock: Clock): Promise<number> {
  const now = clock.now();
  const rows = await database.query<{ deleted: number }>(
    `with ended as (
       delete from sessions where expires_at <= $1::timestamptz or last_seen_at <= $2::timestamptz returning 1
     ), links as (
       delete from sign_in_links where expires_at <= $1::timestamptz returning 1
     ), failures as (
       delete from sign_in_failures where window_ends_at <= $1::timestamptz returning 1
     ) select (select count(*) from ended) + (select count(*) from links) + (select count(*) from failures) as deleted`,
    [new Date(now), new Date(now - sessionIdleMs)],
  );
  return rows[0]?.deleted ?? 0;
}
