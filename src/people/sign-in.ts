/**
 * Sign-in with a password or an account at an identity provider.
 *
 * An unknown account takes as long as a wrong password and gives the same result. Failures are counted in the database, so that the limit
 * holds over all processes: each attempt is counted before its password is checked, and a success takes it back.
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
 * Attempts with one e-mail address from one network address, with one e-mail address, and from one network address. The first is the lowest,
 * so that an attacker cannot lock out other people. Links and OpenID Connect work meanwhile.
 */
const maxFromOnePlace = 10;
const maxPerAccount = 100;
const maxPerAddress = 50;
/** When to try again while too many sign-ins are under way. */
const busyMs = 10_000;

export type SignInResult =
  | { readonly kind: 'ok'; readonly person: PersonRecord }
  /** Unknown account, wrong password or disabled person. */
  | { readonly kind: 'refused' }
  /** Too many failures, or too many attempts at once; `until` is when the next attempt is allowed. */
  | { readonly kind: 'limited'; readonly until: number };

/** A person as an identity provider describes them, from a verified ID token. */
export interface OidcIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Null unless the provider has verified it. */
  readonly verifiedEmail: string | null;
  readonly name: string | null;
}

export interface SignIn {
  withPassword(attempt: { email: string; password: string; address: string }): Promise<SignInResult>;
  /**
   * Finds the person by issuer and subject, or else by verified e-mail address. A match by address ends every other
   * way into the account. If there is no account, we create one for an address in `allowedDomains` or one that an
   * owner has added to a project. Returns null for everybody else and for disabled people.
   */
  withOidc(identity: OidcIdentity, allowedDomains: readonly string[]): Promise<PersonRecord | null>;
}

export function createSignIn({ database, clock }: { readonly database: Database; readonly clock: Clock }): SignIn {
  const limit = createAttemptLimit({ database, clock });

  return {
    async withPassword({ email, password, address }) {
      if (isHashingBusy()) return { kind: 'limited', until: clock.now() + busyMs };
      const account = toPostgresText(email.trim().toLowerCase());
      const byAccount = limitKey('account', account, maxPerAccount);
      const byAddress = limitKey('address', networkOf(address), maxPerAddress);
      const byBoth = limitKey('account and address', `${networkOf(address)} ${account}`, maxFromOnePlace);
      const until = await limit.count([byBoth, byAccount, byAddress]);
      if (until !== null) return { kind: 'limited', until };
      const [row] = await database.query<{ id: string; hash: string | null }>(
        'select id, password_hash as hash from people where email = $1::text and disabled_at is null',
        [account],
      );
      const matches = await verifyPassword(password, row?.hash ?? null);
      const person = row && matches ? await readPerson(database, row.id) : null;
      if (!person || person.disabledAt !== null) return { kind: 'refused' };
      // Others may still guess the account, or at the address, so only this attempt is taken back there.
      await limit.clear(byBoth);
      await limit.takeBack(byAccount);
      await limit.takeBack(byAddress);
      return { kind: 'ok', person };
    },
    withOidc: ({ issuer, subject, verifiedEmail, name }, allowedDomains) =>
      database.transaction(async (tx) => {
        const [known] = await tx.query<{ id: string; isDisabled: boolean }>(
          'select id, disabled_at is not null as "isDisabled" from people where oidc_issuer = $1::text and oidc_sub = $2::text',
          [issuer, subject],
        );
        if (known) return known.isDisabled ? null : confirmAddress(tx, known.id);
        const person = parseIdentity(verifiedEmail, name);
        if (person === null) return null;
        const { email } = person;
        const [found] = await tx.query<{ id: string; isFree: boolean }>(
          `select id, oidc_issuer is distinct from $2::text and disabled_at is null as "isFree"
           from people where email = $1::text and project_id is null for update`,
          [email, issuer],
        );
        // An account of another subject keeps that subject: the provider may have reassigned the address.
        if (found && !found.isFree) return null;
        const isAllowed = allowedDomains.includes(email.slice(email.lastIndexOf('@') + 1));
        if (!found && !isAllowed && !(await isInvited(tx, email))) return null;
        const now = clock.now();
        // Addresses of accounts are not verified: another person may have a password or a session of this one.
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
 * Each sign-in with the identity provider takes over what owners have given to the address, not only the first one.
 * Otherwise an owner who adds an address could see later whether the deployment knew it.
 */
async function confirmAddress(tx: Queries, personId: string): Promise<PersonRecord | null> {
  const person = await readPerson(tx, personId);
  if (person) await takeOverAccounts(tx, personId, person.email);
  return person;
}
