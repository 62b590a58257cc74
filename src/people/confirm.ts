/**
 * Accounts that an owner created (`members.invite`) prove nothing about their e-mail address, since the owner received the sign-in link: they are
 * valid in that project only. When a deployment admin or the identity provider confirms the address, the confirmed account takes their place.
 */
import type { Queries } from '../db/database.ts';

/** SQL expression: the e-mail address of a row of `people`, for people to read. */
export const shownEmailSql = 'coalesce(people.claimed_email, people.email)';

/** Moves the roles of the unconfirmed accounts of an address to a confirmed account, and deletes them with their sessions, links and tokens. */
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

/** Whether a project has an unconfirmed account of the address. */
export async function isInvited(tx: Queries, email: string): Promise<boolean> {
  return (await tx.query('select 1 from people where claimed_email = $1::text limit 1', [email])).length > 0;
}
