/** The `people` table, which contains the accounts of people who operate the deployment and its projects. */
import { randomUUID } from 'node:crypto';
import { type GatewayError, gatewayError } from '../core/errors.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';
import type { Clock } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import { shownEmailSql, takeOverAccounts } from './confirm.ts';
import { endAccess, endSignIns } from './end-access.ts';
import { assertPassword, hashPassword } from './password.ts';
import type { Person } from './person.ts';
import { type NewPerson, nameFromEmail, newPersonInput, parseName, personChange } from './person-input.ts';
import { accessEnded } from './sessions.ts';

/** A person together with details that only administrators see. */
export interface PersonRecord extends Person {
  readonly hasPassword: boolean;
  readonly hasOidc: boolean;
  readonly disabledAt: number | null;
  readonly createdAt: number;
  /** The slug of the project that an unconfirmed account is limited to. Null for confirmed accounts. */
  readonly onlyProject: string | null;
}

export function createAccounts({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  /** Throws `not_found`. */
  const get = async (personId: string): Promise<PersonRecord> => {
    const person = await readPerson(database, personId);
    if (!person) throw personNotFound();
    return person;
  };
  return {
    /**
     * Creates a confirmed account from a request body. It takes over the roles of unconfirmed accounts with the same
     * address. Throws `conflict` if there's already a confirmed account with that address.
     */
    async create(input: unknown): Promise<PersonRecord> {
      const person = parseOrBadRequest(newPersonInput, input);
      if (person.password !== undefined) assertPassword(person.password, person.email);
      const passwordHash = person.password === undefined ? null : await hashPassword(person.password);
      return database.transaction((tx) => insertPerson(tx, { ...person, passwordHash }, clock.now()));
    },
    get,
    /** Finds a confirmed account. Unconfirmed ones are ignored. */
    findByEmail: (email: string): Promise<PersonRecord | null> => readConfirmed(database, email.trim().toLowerCase()),
    /** Returns one page of confirmed accounts, sorted by email. `after` is the last address of the previous page. */
    list: ({ after = '', limit }: { after?: string | undefined; limit: number }): Promise<PersonRecord[]> =>
      readPeople(database, 'where email > $1::text and project_id is null order by email limit $2::integer', [after, limit]),
    /** Returns unconfirmed accounts, newest first, at most 1,000. */
    listUnconfirmed: (): Promise<PersonRecord[]> =>
      readPeople(database, 'where project_id is not null order by created_at desc, id limit 1000', []),
    /**
     * Confirms the address of an unconfirmed account. Its role moves to the confirmed account with the same address,
     * which we create if necessary. We end all sessions, links and tokens of the unconfirmed account, because the
     * project owner who created it may have signed in with them. Throws `not_found`, or `conflict` if the account is
     * already confirmed.
     */
    confirm: (personId: string): Promise<{ readonly person: PersonRecord; readonly isNew: boolean }> =>
      database.transaction(async (tx) => {
        const { email, name, onlyProject } = (await readPerson(tx, personId)) ?? {};
        if (email === undefined || name === undefined) throw personNotFound();
        if (onlyProject === null) throw gatewayError('conflict', { message: 'the account is already confirmed' });
        const known = await readConfirmed(tx, email);
        if (known) await takeOverAccounts(tx, known.id, email);
        return { person: known ?? (await insertPerson(tx, { email, name, passwordHash: null }, clock.now())), isNew: known === null };
      }),
    async isEmpty(): Promise<boolean> {
      return (await database.query('select 1 from people limit 1')).length === 0;
    },
    /**
     * Changes the name, the admin flag or `disabled`, as given in a request body. If a person is disabled, their
     * sessions, sign-in links and personal tokens end. If the account is confirmed, we also disable unconfirmed
     * accounts with the same address. With `keepAdmin`, throws `conflict` if no other deployment admin would be left.
     */
    change(personId: string, input: unknown, { keepAdmin = false } = {}): Promise<PersonRecord> {
      const { name = null, admin = null, disabled = null } = parseOrBadRequest(personChange, input);
      return database.transaction(async (tx) => {
        if (keepAdmin && (admin === false || disabled === true)) await keepAnotherAdmin(tx, personId);
        await tx.query(
          `update people set name = coalesce($2::text, name), is_admin = coalesce($3::boolean, is_admin) where id = $1::uuid`,
          [personId, name, admin],
        );
        if (disabled !== null) await setDisabled(tx, personId, disabled, clock.now());
        const person = await readPerson(tx, personId);
        if (!person) throw personNotFound();
        if (admin && person.onlyProject !== null) throw gatewayError('conflict', { message: 'the account must be confirmed first' });
        return person;
      });
    },
    /**
     * Deletes a person with their sessions, links and memberships. The audit log keeps their id. If the account is
     * confirmed, unconfirmed accounts with the same address are deleted too.
     */
    async remove(personId: string): Promise<void> {
      const rows = await database.query(`delete from people where ${ofPersonSql} returning id`, [personId]);
      if (rows.length === 0) throw personNotFound();
    },
    async rename(personId: string, name: string): Promise<void> {
      await database.query('update people set name = $2::text where id = $1::uuid', [personId, parseName(name)]);
    },
    /**
     * Sets a password. This ends the person's sign-in links and all of their sessions except `sessionId`. With
     * `revokeTokens`, it also revokes their personal tokens. `oldHash` is the hash of the current password, which the
     * person has just proved to know, or null if they have none.
     *
     * Throws `forbidden` if the session has ended or the password has changed in the meantime. Otherwise, somebody who
     * was just locked out could still set a password.
     */
    async setPassword(
      personId: string,
      password: string,
      { sessionId, oldHash, revokeTokens }: { sessionId: string; oldHash: string | null; revokeTokens: boolean },
    ): Promise<void> {
      assertPassword(password, (await get(personId)).email);
      const hash = await hashPassword(password);
      await database.transaction(async (tx) => {
        const [person] = await tx.query(
          'select 1 from people where id = $1::uuid and disabled_at is null and password_hash is not distinct from $2::text for update',
          [personId, oldHash],
        );
        const [session] = await tx.query('select 1 from sessions where id = $1::uuid', [sessionId]);
        if (!person || !session) throw accessEnded();
        await setPasswordHash(tx, personId, hash);
        if (revokeTokens) await endAccess(tx, personId, clock.now(), sessionId);
        else await endSignIns(tx, personId, sessionId);
      });
    },
  };
}

/**
 * Creates a confirmed account, which takes over the roles of unconfirmed accounts with the same address. Throws
 * `conflict` if there's already a confirmed account with that address.
 */
export async function insertPerson(
  tx: Queries,
  person: Pick<NewPerson, 'email' | 'name' | 'admin'> & { passwordHash: string | null },
  now: number,
): Promise<PersonRecord> {
  const { email, name = nameFromEmail(email), admin = false, passwordHash } = person;
  // Owners of projects can see this id, and a UUIDv7 would tell them when the account was created. So use a random one.
  const id = randomUUID();
  // `email` is unique, but unconfirmed accounts from before migration 0046 still have their plain address in this
  // column. Replace it with a made-up value, so that it doesn't conflict with the new account.
  await tx.query(`update people set email = id || ':' || email where email = $1::text and project_id is not null`, [email]);
  const rows = await tx.query(
    `insert into people (id, email, name, is_admin, password_hash, created_at)
     values ($1::uuid, $2::text, $3::text, $4::boolean, $5::text, $6::timestamptz)
     on conflict (email) do nothing returning id`,
    [id, email, name, admin, passwordHash, new Date(now)],
  );
  if (rows.length > 0) await takeOverAccounts(tx, id, email);
  const record = rows.length > 0 ? await readPerson(tx, id) : null;
  if (!record) throw gatewayError('conflict', { issues: [{ path: 'email', message: 'a person with this address already exists' }] });
  return record;
}

export async function readPerson(queries: Queries, personId: string): Promise<PersonRecord | null> {
  const [person = null] = await readPeople(queries, 'where id = $1::uuid', [personId]);
  return person;
}

async function readConfirmed(queries: Queries, email: string): Promise<PersonRecord | null> {
  const [person = null] = await readPeople(queries, 'where email = $1::text and project_id is null', [email]);
  return person;
}

/**
 * Checks whether the account may have a password. Accounts that sign in with OpenID Connect can't set one, and neither
 * can unconfirmed accounts. Several unconfirmed accounts can have the same address, so if they had passwords, a
 * project's owner could try them out to learn about other projects. Accounts that had a password before we introduced
 * this rule keep it.
 */
export function mayHavePassword({ hasPassword, hasOidc, onlyProject }: PersonRecord): boolean {
  return hasPassword || (onlyProject === null && !hasOidc);
}

/** Matches account $1. If it's confirmed, also matches the unconfirmed accounts with the same address. */
const ofPersonSql = `(id = $1::uuid or claimed_email = (select email from people confirmed where id = $1::uuid and project_id is null))`;

/** Locks the deployment admins, so that two of them can't demote each other at the same time. */
async function keepAnotherAdmin(tx: Queries, personId: string): Promise<void> {
  const admins = await tx.query<{ id: string }>('select id from people where is_admin and disabled_at is null order by id for update');
  if (admins.every(({ id }) => id === personId))
    throw gatewayError('conflict', { message: 'the deployment needs an admin: make somebody else an admin first' });
}

/**
 * Disables or enables an account, together with the unconfirmed accounts that have the same address. An unconfirmed
 * account that was disabled at another time stays disabled, because an admin must have disabled it separately.
 */
async function setDisabled(tx: Queries, personId: string, disabled: boolean, now: number): Promise<void> {
  const changed = await tx.query<{ id: string }>(
    disabled
      ? `update people set disabled_at = coalesce(disabled_at, $2::timestamptz) where ${ofPersonSql} returning id`
      : `update people set disabled_at = null
          where ${ofPersonSql} and disabled_at = (select disabled_at from people own where id = $1::uuid) returning id`,
    disabled ? [personId, new Date(now)] : [personId],
  );
  if (disabled) for (const { id } of changed) await endAccess(tx, id, now);
}

/** Only sets the hash. The caller has to end sessions and revoke links and tokens. */
export async function setPasswordHash(tx: Queries, personId: string, hash: string): Promise<void> {
  await tx.query('update people set password_hash = $2::text where id = $1::uuid', [personId, hash]);
}

interface PersonRow extends Omit<PersonRecord, 'disabledAt' | 'createdAt'> {
  readonly disabledAt: Date | null;
  readonly createdAt: Date;
}

async function readPeople(queries: Queries, clauses: string, values: readonly unknown[]): Promise<PersonRecord[]> {
  const rows = await queries.query<PersonRow>(
    `select id, ${shownEmailSql} as email, name, is_admin as "isAdmin", password_hash is not null as "hasPassword",
            oidc_issuer is not null as "hasOidc", disabled_at as "disabledAt", created_at as "createdAt",
            (select slug from projects where projects.id = project_id) as "onlyProject"
       from people ${clauses}`,
    values,
  );
  return rows.map((row) => ({ ...row, disabledAt: row.disabledAt?.getTime() ?? null, createdAt: row.createdAt.getTime() }));
}

function personNotFound(): GatewayError {
  return gatewayError('not_found', { message: 'no such person' });
}
