/** Finds out which person has signed in with the identity provider. */
import type { Queries } from '../db/database.ts';
import type { Person } from './person.ts';
import type { OidcIdentity } from './sign-in.ts';

export type Identity = Pick<OidcIdentity, 'issuer' | 'subject' | 'verifiedEmail'>;

/**
 * Returns the active person who is connected to the account. If nobody is, returns the person with the account's
 * verified email, as long as they aren't connected to an account yet. Returns null if there is nobody.
 */
export async function findPersonOf(queries: Queries, { issuer, subject, verifiedEmail }: Identity): Promise<Person | null> {
  const [row] = await queries.query<Person & { isDisabled: boolean }>(
    `select id, email, name, is_admin as "isAdmin", disabled_at is not null as "isDisabled" from people
      where (oidc_issuer = $1::text and oidc_sub = $2::text) or (oidc_issuer is null and project_id is null and email = $3::text)
      order by oidc_issuer nulls last limit 1`,
    [issuer, subject, verifiedEmail],
  );
  // This has to hold even if the provider now reports an address that belongs to somebody else's account.
  if (!row || row.isDisabled) return null;
  const { isDisabled: _, ...person } = row;
  return person;
}
