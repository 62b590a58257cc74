/** Finds the person of an account at the identity provider. */
import type { Queries } from '../db/database.ts';
import type { Person } from './person.ts';
import type { OidcIdentity } from './sign-in.ts';

export type Identity = Pick<OidcIdentity, 'issuer' | 'subject' | 'verifiedEmail'>;

/** The active person of an account, or of its verified email when that person is not connected to an account yet. Null when there is none. */
export async function findPersonOf(queries: Queries, { issuer, subject, verifiedEmail }: Identity): Promise<Person | null> {
  const [person] = await queries.query<Person>(
    `select id, email, name, is_admin as "isAdmin" from people
      where disabled_at is null
        and ((oidc_issuer = $1::text and oidc_sub = $2::text) or (oidc_issuer is null and email = $3::text))
      order by oidc_issuer nulls last limit 1`,
    [issuer, subject, verifiedEmail],
  );
  return person ?? null;
}
