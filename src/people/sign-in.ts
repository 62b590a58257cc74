/**
 * Sign-in with a password or an account at an identity provider.
 *
 * An unknown account takes as long as a wrong password and gives the same result. Failures are counted in the database, so that the limit
 * holds over all processes: each attempt is counted before its password is checked, and a success takes it back.
 */
import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { toPostgresText } from '../core/postgres-text.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { insertPerson, type PersonRecord, readPerson } from './accounts.ts';
import { verifyPassword } from './password.ts';

const windowMs = 15 * 60_000;
/** Attempts with one e-mail address, and from one network address. Links and OpenID Connect work meanwhile. */
const maxPerAccount = 10;
const maxPerAddress = 50;

export type SignInResult =
  | { readonly kind: 'ok'; readonly person: PersonRecord }
  /** Unknown account, wrong password or disabled person. */
  | { readonly kind: 'refused' }
  /** Too many failures; `until` is when the next attempt is allowed. */
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
   * Finds the person by issuer and subject, else by verified e-mail address; an address of `allowedDomains` gets a new account.
   * Null for everybody else and for disabled people.
   */
  withOidc(identity: OidcIdentity, allowedDomains: readonly string[]): Promise<PersonRecord | null>;
}

export function createSignIn({ database, clock }: { readonly database: Database; readonly clock: Clock }): SignIn {
  /** Counts an attempt; returns when the next one is allowed if there were too many. */
  const countAttempt = async (keys: readonly LimitKey[]): Promise<number | null> => {
    const now = clock.now();
    const rows = await database.query<{ hash: Buffer; failures: number; endsAt: Date }>(
      `insert into sign_in_failures (key_sha256, failures, window_ends_at)
       select key, 1, $3::timestamptz from unnest($1::bytea[]) as key order by key
       on conflict (key_sha256) do update set
         failures = case when sign_in_failures.window_ends_at <= $2::timestamptz then 1 else sign_in_failures.failures + 1 end,
         window_ends_at = case when sign_in_failures.window_ends_at <= $2::timestamptz then $3::timestamptz else sign_in_failures.window_ends_at end
       returning key_sha256 as hash, failures, window_ends_at as "endsAt"`,
      [keys.map(({ hash }) => hash), new Date(now), new Date(now + windowMs)],
    );
    const exceeded = rows.filter(({ hash, failures }) => keys.some((key) => key.hash.equals(hash) && failures > key.max));
    return exceeded.length === 0 ? null : Math.max(...exceeded.map(({ endsAt }) => endsAt.getTime()));
  };

  /** A success clears the failures of the account and takes back its attempt from the address, where others may still guess. */
  const clearAttempt = async ([account, address]: readonly [LimitKey, LimitKey]): Promise<void> => {
    await database.query('delete from sign_in_failures where key_sha256 = $1::bytea', [account.hash]);
    await database.query('update sign_in_failures set failures = failures - 1 where key_sha256 = $1::bytea and failures > 0', [
      address.hash,
    ]);
  };

  return {
    async withPassword({ email, password, address }) {
      const account = toPostgresText(email.trim().toLowerCase());
      const keys = [limitKey('account', account, maxPerAccount), limitKey('address', networkOf(address), maxPerAddress)] as const;
      const until = await countAttempt(keys);
      if (until !== null) return { kind: 'limited', until };
      const [row] = await database.query<{ id: string; hash: string | null }>(
        'select id, password_hash as hash from people where email = $1::text and disabled_at is null',
        [account],
      );
      const matches = await verifyPassword(password, row?.hash ?? null);
      const person = row && matches ? await readPerson(database, row.id) : null;
      if (!person || person.disabledAt !== null) return { kind: 'refused' };
      await clearAttempt(keys);
      return { kind: 'ok', person };
    },
    withOidc: ({ issuer, subject, verifiedEmail, name }, allowedDomains) =>
      database.transaction(async (tx) => {
        const [known] = await tx.query<{ id: string }>(
          'select id from people where oidc_issuer = $1::text and oidc_sub = $2::text and disabled_at is null',
          [issuer, subject],
        );
        if (known) return readPerson(tx, known.id);
        if (verifiedEmail === null) return null;
        const email = verifiedEmail.toLowerCase();
        const [found] = await tx.query<{ id: string; isFree: boolean }>(
          `select id, oidc_issuer is distinct from $2::text and disabled_at is null as "isFree"
           from people where email = $1::text for update`,
          [email, issuer],
        );
        // An account of another subject stays theirs: the provider may have given the address to somebody else.
        if (found && !found.isFree) return null;
        const isAllowed = allowedDomains.includes(email.slice(email.lastIndexOf('@') + 1));
        if (!found && !isAllowed) return null;
        const personId =
          found?.id ?? (await insertPerson(tx, { email, ...(name !== null && { name }), passwordHash: null }, clock.now())).id;
        await tx.query('update people set oidc_issuer = $2::text, oidc_sub = $3::text where id = $1::uuid', [personId, issuer, subject]);
        return readPerson(tx, personId);
      }),
  };
}

interface LimitKey {
  readonly hash: Buffer;
  readonly max: number;
}

function limitKey(kind: 'account' | 'address', value: string, max: number): LimitKey {
  return { hash: createHash('sha256').update(`${kind} ${value}`).digest(), max };
}

/** An IPv6 client has a whole /64 network, so its addresses count as one. */
function networkOf(address: string): string {
  if (!isIPv6(address) || address.startsWith('::ffff:')) return address;
  const [head = '', tail] = address.split('::').map((part) => part.split(':').filter((group) => group !== ''));
  const groups = tail === undefined ? [...head] : [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
  return groups.slice(0, 4).join(':');
}
