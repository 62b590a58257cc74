import type { Queries } from '../db/database.ts';
import type { Person } from './person.ts';
import type { OidcIdentity } from './sign-in.ts';

export type Identity = Pick<OidcIdentity, 'issuer' | 'subject' | 'verifiedEmail'>;

/**
 * Returns the active person who is connected to this identity. If there's none, returns the person with the verified
 * email address, unless they're connected to a different identity. Otherwise returns null.
 */
export async function findPersonOf(queries: Queries, { issuer, subject, verifiedEmail }: Identity): Promise<Person | null> {
  const [row] = await queries.query<Person & { isDisabled: boolean }>(
    `select id, email, name, is_admin as "isAdmin", disabled_at is not null as "isDisabled" from people
      where (oidc_issuer = $1::text and oidc_sub = $2::text) or (oidc_issuer is null and project_id is null and email = $3::text)
      order by oidc_issuer nulls last limit 1`,
    [issuer, subject, verifiedEmail],
  );
  // If the person with this identity is disabled, don't fall back to the e-mail address. The provider may now report
  // the address of another person's account.
  if (!row || row.isDisabled) return null;
  const { isDisabled: _, ...person } = row;
  return person;
}
