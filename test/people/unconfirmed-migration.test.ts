/** Tests that migration 0046 limits accounts that were created by owners to a single project. */
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from '@jest/globals';
import { migrate } from '../../src/db/migrate.ts';
import { createPeople } from '../../src/people/people.ts';
import { describePostgres, openTestDatabase, withPostgres } from '../support/postgres.ts';
import { insertPerson, insertProject } from './rows.ts';

const migrations = new URL('../../src/db/migrations/', import.meta.url);

describePostgres('accounts from before addresses had to be confirmed', () => {
  test('treats existing accounts as confirmed if an admin or the identity provider created them', () =>
    withPostgres(async (connectionString) => {
      const database = openTestDatabase(connectionString, 2);
      const folder = await mkdtemp(join(tmpdir(), 'gateway-migrations-'));
      try {
        const names = (await readdir(migrations)).filter((name) => name < '0046');
        await Promise.all(names.map((name) => cp(new URL(name, migrations), join(folder, name))));
        await migrate(database, pathToFileURL(`${folder}/`));
        const [home, other] = [await insertProject(database), await insertProject(database)];
        const [owner, admin] = [await insertPerson(database), await insertPerson(database, { isAdmin: true })];
        const [byOwner, byAdmin, withOidc] = [await insertPerson(database), await insertPerson(database), await insertPerson(database)];
        await database.query(`update people set oidc_issuer = 'https://id.example', oidc_sub = 'x' where id = $1::uuid`, [withOidc.id]);
        for (const [actor, person] of [
          [owner, byOwner],
          [admin, byAdmin],
          [owner, withOidc],
        ] as const)
          await database.query(
            `insert into audit_log (at, actor, person_id, project_id, action, outcome, detail)
             values (now(), 'person', $1::uuid, $2::uuid, 'member.add', 'ok', $3::jsonb)`,
            [actor.id, home, JSON.stringify({ person_id: person.id, role: 'member', created: true })],
          );
        for (const person of [byOwner, byAdmin, withOidc])
          for (const project of [home, other])
            await database.query(`insert into members values ($1::uuid, $2::uuid, 'member', now())`, [project, person.id]);

        await migrate(database);
        const people = createPeople({ database, clock: { now: () => 0 } });
        const rolesOf = async ({ id }: { id: string }) => [await people.members.roleOf(id, home), await people.members.roleOf(id, other)];
        expect(await Promise.all([byOwner, byAdmin, withOidc].map(rolesOf))).toEqual([
          ['member', null],
          ['member', 'member'],
          ['member', 'member'],
        ]);
        const listed = (await people.members.list(other)).filter(({ email }) => email === byOwner.email);
        expect(listed).toMatchObject([{ isConfirmed: false }]);
        expect(listed[0]?.personId).not.toBe(byOwner.id);
        // Processes of an older version can still find the account and its password by the address.
        expect(await database.query('select id from people where email = $1::text', [byOwner.email])).toEqual([{ id: byOwner.id }]);
        const confirmed = await people.accounts.create({ email: byOwner.email });
        expect(await rolesOf(confirmed)).toEqual(['member', 'member']);
      } finally {
        await database.close();
        await rm(folder, { recursive: true, force: true });
      }
    }));
});
