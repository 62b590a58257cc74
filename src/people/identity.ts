/** Finds the person that an account at the identity provider belongs to. */
import type { Queries } from '../db/database.ts';
import type { Person } from './person.ts';
import type { OidcIdentity } from './sign-in.ts';

export type Identity = Pick<OidcIdentity, 'issuer' | 'subject' | 'verifiedEmail'>;

/**
 * Returns the active person that is connected to the account. If there is none, we look for somebody with the account's
 * verified email who isn't connected to an account yet. Returns null if neither exists.
 */
export async function findPersonOf(queries: Queries, { issuer, subject, verifiedEmail }: Identity): Promise<Person | null> {
  const [row] = await queries.query<Person & { isDisabled: boolean }>(
    `select id, email, name, is_admin as "isAdmin", disabled_at is not null as "isDisabled" from people
      where (oidc_issuer = $1::text and oidc_sub = $2::text) or (oidc_issuer is null and project_id is null and email = $3::text)
      order by oidc_issuer nulls last limit 1`,
    [issuer, subject, verifiedEmail],
  );
  // A disabled person can't get back in, even if the account now has the address of somebody else.
  if (!row || row.isDisabled) return null;
  const { isDisabled: _, ...person } = row;
  return person;
}
