/** Creates people and projects for the tests of `src/people`. */
import { randomBytes } from 'node:crypto';
import { newId } from '../../src/core/ids.ts';
import type { Queries } from '../../src/db/database.ts';
import type { PersonRecord } from '../../src/people/accounts.ts';
import type { Person } from '../../src/people/person.ts';
import type { OidcSignInResult } from '../../src/people/sign-in.ts';

export async function insertPerson(database: Queries, options: { isAdmin?: boolean } = {}): Promise<Person> {
  const name = `person-${randomBytes(6).toString('hex')}`;
  const person = { id: newId(0), email: `${name}@example.com`, name, isAdmin: options.isAdmin ?? false };
  await database.query(
    'insert into people (id, email, name, is_admin, created_at) values ($1::uuid, $2::text, $3::text, $4::boolean, now())',
    [person.id, person.email, person.name, person.isAdmin],
  );
  return person;
}

/** Returns the id. */
export async function insertProject(database: Queries): Promise<string> {
  const id = newId(0);
  await database.query('insert into projects (id, slug, name) values ($1::uuid, $2::text, $2::text)', [
    id,
    `p-${randomBytes(6).toString('hex')}`,
  ]);
  return id;
}

export async function disable(database: Queries, personId: string): Promise<void> {
  await database.query('update people set disabled_at = now() where id = $1::uuid', [personId]);
}

/** Returns null if the person couldn't sign in. */
export async function personOf(signIn: Promise<OidcSignInResult>): Promise<PersonRecord | null> {
  const result = await signIn;
  return result.kind === 'ok' ? result.person : null;
}

export function uniqueEmail(): string {
  return `person-${randomBytes(6).toString('hex')}@example.com`;
}
