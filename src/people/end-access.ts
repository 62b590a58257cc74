import type { Queries } from '../db/database.ts';
import { endSessions } from './sessions.ts';

/** Ends a person's unused sign-in links, and all of their sessions except one. */
export async function endSignIns(tx: Queries, personId: string, exceptSession: string | null = null): Promise<void> {
  await endSessions(tx, personId, exceptSession);
  await tx.query('delete from sign_in_links where person_id = $1::uuid', [personId]);
}

/** Like `endSignIns`, but also revokes the personal tokens. */
export async function endAccess(tx: Queries, personId: string, now: number, exceptSession: string | null = null): Promise<void> {
  await endSignIns(tx, personId, exceptSession);
  await tx.query('update personal_tokens set revoked_at = $2::timestamptz where person_id = $1::uuid and revoked_at is null', [
    personId,
    new Date(now),
  ]);
}
