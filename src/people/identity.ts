/** Finds the person of an account at the identity provider. */
import type { Queries } from '../db/database.ts';
import type { Person } from './person.ts';
import type { OidcIdentity } from './sign-in.ts';

export type Identity = Pick<OidcIdentity, 'issuer' | 'subject' | 'verifiedEmail'>;

/** The active person of an account, or of its verified email when that person is not connected to an account yet. Null when there is none. */
export async function findPersonOf(queries: Queries, { issuer, subject, verifiedEmail }: Identity): Promise<Person | null> {
  const [row] = await queries.query<Person & { isDisabled: boolean }>(
    `select id, email, name, is_admin as "isAdmin", disabled_at is not null as "isDisabled" from people
      where (oidc_issuer = $1::text and oidc_sub = $2::text) or (oidc_issuer is null and project_id is null and email = $3::text)
      order by oidc_issuer nulls last limit 1`,
    [issuer, subject, verifiedEmail],
  );
  // A disabled person stays disabled, even when the account now has another person's address.
  if (!row || row.isDisabled) return null;
  const { isDisabled: _, ...person } = row;
  return person;
}
