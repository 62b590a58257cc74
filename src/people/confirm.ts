/**
 * An owner who invites somebody (`members.invite`) also gets the sign-in link of the new account. That the account is
 * used doesn't prove that anybody controls its e-mail address, so it stays unconfirmed and is only valid in that
 * project.
 *
 * Once a deployment admin or the identity provider confirms the address, the confirmed account replaces it. Signing in
 * to the confirmed account with a password or a link isn't enough for that, because it would reveal to the owner that
 * the other account exists.
 */
import type { Queries } from '../db/database.ts';

/**
 * SQL for the e-mail address of a row in `people`. The `email` column of an unconfirmed account only contains a made-up
 * unique value.
 */
export const shownEmailSql = 'coalesce(people.claimed_email, people.email)';

/**
 * Moves the roles of unconfirmed accounts with this address to a confirmed account. Then deletes those accounts,
 * together with their sessions, links and tokens.
 */
export async function takeOverAccounts(tx: Queries, personId: string, email: string): Promise<void> {
  await tx.query(
    `insert into members (project_id, person_id, role, created_at)
     select members.project_id, $1::uuid, role, members.created_at
       from members join people on people.id = person_id
      where claimed_email = $2::text and people.id <> $1::uuid
     on conflict (project_id, person_id) do update set role = case excluded.role when 'owner' then 'owner' else members.role end`,
    [personId, email],
  );
  await tx.query('delete from people where claimed_email = $1::text and id <> $2::uuid', [email, personId]);
}

export async function isInvited(tx: Queries, email: string): Promise<boolean> {
  return (await tx.query('select 1 from people where claimed_email = $1::text limit 1', [email])).length > 0;
}
