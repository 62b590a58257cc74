/** Ends the ways into an account that another person may have. */
import type { Queries } from '../db/database.ts';
import { endSessions } from './sessions.ts';

/** Ends the sessions of a person except one, and the unused sign-in links. */
export async function endSignIns(tx: Queries, personId: string, exceptSession: string | null = null): Promise<void> {
  await endSessions(tx, personId, exceptSession);
  await tx.query('delete from sign_in_links where person_id = $1::uuid', [personId]);
}

/** As `endSignIns`, and revokes the personal tokens. */
export async function endAccess(tx: Queries, personId: string, now: number, exceptSession: string | null = null): Promise<void> {
  await endSignIns(tx, personId, exceptSession);
  await tx.query('update personal_tokens set revoked_at = $2::timestamptz where person_id = $1::uuid and revoked_at is null', [
    personId,
    new Date(now),
  ]);
}
