/**
 * Signs people in with a password or with an account at an identity provider. An unknown account takes as long as a
 * wrong password and gives the same result. See `attempt-limit.ts` for how we limit guessing.
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
 * Limits per window for one email address used from one network address, for one email address, and for one network
 * address. The first limit is the lowest, so that an attacker can't lock out other people. Sign-in links and OpenID
 * Connect aren't limited.
 */
const maxFromOnePlace = 10;
const maxPerAccount = 100;
const maxPerAddress = 50;
/** When to try again if too many sign-ins are in progress. */
const busyMs = 10_000;

export type SignInResult =
  | { readonly kind: 'ok'; readonly person: PersonRecord }
  /** The account is unknown, the password is wrong, or the person is disabled. */
  | { readonly kind: 'refused' }
  /**
   * There were too many failures, or there are too many attempts in progress. `until` is when the next attempt is
   * allowed.
   */
  | { readonly kind: 'limited'; readonly until: number };

/** A person as the identity provider describes them in a verified ID token. */
export interface OidcIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Null unless the provider has verified the address. */
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
      // Somebody else may still be guessing this account, or guessing from this address, so we only take back a single
      // attempt from those counters.
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
        // If the account is connected to another subject, we don't change that, because the provider may have
        // reassigned the address.
        if (found && !found.isFree) return null;
        const isAllowed = allowedDomains.includes(email.slice(email.lastIndexOf('@') + 1));
        if (!found && !isAllowed && !(await isInvited(tx, email))) return null;
        const now = clock.now();
        // Nobody has verified the address of the account so far, so somebody else may have a password or a session for
        // it.
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
 * We do this on every sign-in with the identity provider and not only on the first one. Otherwise an owner who adds an
 * address could find out later whether the deployment already knew it.
 */
async function confirmAddress(tx: Queries, personId: string): Promise<PersonRecord | null> {
  const person = await readPerson(tx, personId);
  if (person) await takeOverAccounts(tx, personId, person.email);
  return person;
}
