/**
 * The `sign_in_links` table. A link works once, within a day. We use links for the first sign-in, and for people who
 * have no password or have forgotten it.
 *
 * A link without a person creates the account of a deployment admin, e.g. of the very first one. Once somebody has used
 * it, all other links without a person stop working.
 */
import { type GatewayError, gatewayError } from '../core/errors.ts';
import { sha256 } from '../core/sha256.ts';
import type { Clock } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import { insertPerson, type PersonRecord, readPerson, setPasswordHash } from './accounts.ts';
import { endAccess } from './end-access.ts';
import { assertPassword, hashPassword } from './password.ts';
import { parseNewAccount } from './person-input.ts';
import { createSecret, isSecret } from './secret.ts';

const signInLinkMs = 86_400_000;
/** The path of the page that a link opens (`src/console/sign-in`). */
export const signInLinkPath = '/console/sign-in/link';

export function signInLinkUrl(origin: string, secret: string): string {
  return `${origin}${signInLinkPath}?token=${secret}`;
}

export interface LinkInput {
  /** The email address of the new account. Ignored if the link belongs to an existing account. */
  readonly email: string;
  readonly name: string;
  /**
   * The new password. If it's empty, an existing account keeps its password. If it's set, the person's sessions, other
   * links and personal tokens end.
   */
  readonly password: string;
}

export function createSignInLinks({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  /**
   * Looks up a link without marking it as used. Returns null if it doesn't exist, has expired or was already used, or
   * if the person is disabled.
   */
  const find = async (secret: string): Promise<{ readonly person: PersonRecord | null; readonly expiresAt: number } | null> => {
    if (!isSecret(secret)) return null;
    const [row] = await database.query<{ personId: string | null; expiresAt: Date }>(
      `select person_id as "personId", expires_at as "expiresAt"
       from sign_in_links left join people on people.id = person_id
       where secret_sha256 = $1::bytea and expires_at > $2::timestamptz and disabled_at is null`,
      [sha256(secret), new Date(clock.now())],
    );
    if (!row) return null;
    return { person: row.personId === null ? null : await readPerson(database, row.personId), expiresAt: row.expiresAt.getTime() };
  };
  return {
    /**
     * Creates a sign-in link for a person. If `personId` is null, the link creates the account of a deployment admin.
     * Throws `conflict` if the account is disabled or was deleted.
     */
    async issue(personId: string | null) {
      const now = clock.now();
      const { secret, hash } = createSecret();
      const expiresAt = now + signInLinkMs;
      const issued = await database.query(
        `insert into sign_in_links (secret_sha256, person_id, created_at, expires_at)
         select $1::bytea, $2::uuid, $3::timestamptz, $4::timestamptz
          where $2::uuid is null or exists (select 1 from people where id = $2::uuid and disabled_at is null for share)
         returning 1`,
        [hash, personId, new Date(now), new Date(expiresAt)],
      );
      if (issued.length === 0)
        throw gatewayError('conflict', { message: 'this account is disabled; enable it before you create a sign-in link' });
      return { secret, expiresAt };
    },
    find,
    /**
     * Signs a person in with a link, which then stops working. If several requests use the same link, only one of them
     * succeeds. Throws `not_found` if the link can't be used. Throws `bad_request` or `conflict` for invalid input,
     * after which the person can try the link again.
     */
    async use(secret: string, input: LinkInput): Promise<PersonRecord> {
      const link = await find(secret);
      if (!link) throw linkNotFound();
      const account = link.person ?? parseNewAccount(input);
      if (input.password !== '' && link.person && link.person.onlyProject !== null && !link.person.hasPassword)
        throw gatewayError('bad_request', {
          issues: [{ path: 'password', message: 'leave this empty: the account must be confirmed before it can have a password' }],
        });
      if (input.password !== '' || link.person === null) assertPassword(input.password, account.email);
      // Hash the password before the transaction starts, because a transaction can't wait for anything but SQL.
      const passwordHash = input.password === '' ? null : await hashPassword(input.password);
      return database.transaction(async (tx) => {
        await takeLink(tx, secret, clock.now());
        if (link.person === null) {
          // There may be more links that create the first account, because the gateway prints a new one each time it's
          // started on a terminal. Now that the account exists, delete them.
          await tx.query('delete from sign_in_links where person_id is null');
          return insertPerson(tx, { ...account, admin: true, passwordHash }, clock.now());
        }
        if (passwordHash !== null) {
          await setPasswordHash(tx, link.person.id, passwordHash);
          await endAccess(tx, link.person.id, clock.now());
        }
        const person = await readPerson(tx, link.person.id);
        if (!person || person.disabledAt !== null) throw linkNotFound();
        return person;
      });
    },
  };
}

/** Deletes the link, so that it can't be used twice. Throws `not_found` if another request has used it first. */
async function takeLink(tx: Queries, secret: string, now: number): Promise<void> {
  const taken = await tx.query(
    'delete from sign_in_links where secret_sha256 = $1::bytea and expires_at > $2::timestamptz returning person_id',
    [sha256(secret), new Date(now)],
  );
  if (taken.length === 0) throw linkNotFound();
}

function linkNotFound(): GatewayError {
  return gatewayError('not_found', { message: 'this sign-in link has already been used or has expired; ask for a new one' });
}
