/**
 * Signs people in with a password, or with an account at an identity provider. If an account doesn't exist, the result
 * is the same as for a wrong password and takes just as long. `attempt-limit.ts` limits guessing.
 */
import { toPostgresText } from '../core/postgres-text.ts';
import type { Clock } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import { insertPerson, type PersonRecord, readPerson } from './accounts.ts';
import { createAttemptLimit, limitKey, networkOf } from './attempt-limit.ts';
import { isInvited, takeOverAccounts } from './confirm.ts';
import { endAccess } from './end-access.ts';
import { isHashingBusy, verifyPassword } from './password.ts';
import { parseIdentity } from './person-input.ts';

/**
 * How many attempts we allow per window. The limits apply to an email address from a single network address, to an
 * email address in total, and to a network address in total. The first limit is the lowest, so that an attacker can't
 * lock out other people. Sign-in links and OpenID Connect aren't limited.
 */
const maxFromOnePlace = 10;
const maxPerAccount = 100;
const maxPerAddress = 50;
/** How long people are asked to wait if too many sign-ins are in progress. */
const busyMs = 10_000;

export type SignInResult =
  /** `passwordHash` is the stored hash that matches the password. */
  | { readonly kind: 'ok'; readonly person: PersonRecord; readonly passwordHash: string }
  /** The account doesn't exist, the password is wrong, or the person is disabled. */
  | { readonly kind: 'refused' }
  /** Too many attempts have failed or are in progress. The next one is allowed at `until`. */
  | { readonly kind: 'limited'; readonly until: number };

export type OidcSignInResult =
  | { readonly kind: 'ok'; readonly person: PersonRecord }
  /** Nobody has this identity, and we may not create an account for it. */
  | { readonly kind: 'refused' }
  | { readonly kind: 'disabled' };

/** Who somebody is according to an identity provider. The caller has to verify the ID token first. */
export interface OidcIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Null if the provider sends no address, or doesn't say that it has verified it. */
  readonly verifiedEmail: string | null;
  readonly name: string | null;
}

export function createSignIn({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  const limit = createAttemptLimit({ database, clock });

  return {
    async withPassword({ email, password, address }: { email: string; password: string; address: string }): Promise<SignInResult> {
      if (isHashingBusy()) return { kind: 'limited', until: clock.now() + busyMs };
      const account = toPostgresText(email.trim().toLowerCase());
      const byAccount = limitKey('account', account, maxPerAccount);
      const byAddress = limitKey('address', networkOf(address), maxPerAddress);
      const byBoth = limitKey('account and address', `${networkOf(address)} ${account}`, maxFromOnePlace);
      const until = await limit.count([byAddress, byBoth, byAccount]);
      if (until !== null) return { kind: 'limited', until };
      const [row] = await database.query<{ id: string; hash: string | null }>(
        'select id, password_hash as hash from people where email = $1::text and disabled_at is null',
        [account],
      );
      const matches = await verifyPassword(password, row?.hash ?? null);
      if (!row?.hash || !matches) return { kind: 'refused' };
      const person = await readPerson(database, row.id);
      if (!person || person.disabledAt !== null) return { kind: 'refused' };
      // We may only clear the counter for this account from this address. The other two may include attempts by
      // somebody else who is guessing this account's password, or who shares the address, so we only take back our own
      // attempt there.
      await limit.clear(byBoth);
      await limit.takeBack(byAccount);
      await limit.takeBack(byAddress);
      return { kind: 'ok', person, passwordHash: row.hash };
    },
    /**
     * Finds the person by issuer and subject, or else by verified e-mail address. In the latter case, all other access
     * to their account ends. If there's no account yet, we create one, provided that the address is in `allowedDomains`
     * or an owner has added it to a project.
     */
    withOidc: ({ issuer, subject, verifiedEmail, name }: OidcIdentity, allowedDomains: readonly string[]): Promise<OidcSignInResult> =>
      database.transaction(async (tx) => {
        const [known] = await tx.query<{ id: string; isDisabled: boolean }>(
          'select id, disabled_at is not null as "isDisabled" from people where oidc_issuer = $1::text and oidc_sub = $2::text',
          [issuer, subject],
        );
        if (known) return known.isDisabled ? { kind: 'disabled' } : confirmAddress(tx, known.id);
        const person = parseIdentity(verifiedEmail, name);
        if (person === null) return { kind: 'refused' };
        const { email } = person;
        const [found] = await tx.query<{ id: string; isFree: boolean; isDisabled: boolean }>(
          `select id, oidc_issuer is distinct from $2::text as "isFree", disabled_at is not null as "isDisabled"
           from people where email = $1::text and project_id is null for update`,
          [email, issuer],
        );
        // The account is already connected to another subject of this provider. The provider may have given the address
        // to somebody else, so leave the account alone.
        if (found && !found.isFree) return { kind: 'refused' };
        if (found?.isDisabled) return { kind: 'disabled' };
        const isAllowed = allowedDomains.includes(email.slice(email.lastIndexOf('@') + 1));
        if (!found && !isAllowed && !(await isInvited(tx, email))) return { kind: 'refused' };
        const now = clock.now();
        // Until now, nobody had to prove that they own the account's address, so somebody else may have a password or a
        // session for the account. End all of these first.
        if (found) await endAccess(tx, found.id, now);
        const personId = found?.id ?? (await insertPerson(tx, { ...person, passwordHash: null }, now)).id;
        await tx.query('update people set oidc_issuer = $2::text, oidc_sub = $3::text, password_hash = null where id = $1::uuid', [
          personId,
          issuer,
          subject,
        ]);
        return confirmAddress(tx, personId);
      }),
  };
}

/**
 * Moves the roles of unconfirmed accounts with the person's address to the person. We do this at every sign-in with the
 * identity provider. If we only did it at the first one, an account that an owner adds later would stay unconfirmed,
 * which would tell the owner that the deployment already knew the address.
 */
async function confirmAddress(tx: Queries, personId: string): Promise<OidcSignInResult> {
  const person = await readPerson(tx, personId);
  if (!person) return { kind: 'refused' };
  await takeOverAccounts(tx, personId, person.email);
  return { kind: 'ok', person };
}
