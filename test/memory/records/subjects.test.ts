/** Tests the list of end users in a database that doesn't sort texts byte by byte. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { listPage } from '../../../src/console/end-users/list-page.ts';
import type { ConsoleContext } from '../../../src/console/frame/route.ts';
import { systemClock } from '../../../src/core/time.ts';
import type { Database } from '../../../src/db/database.ts';
import { migrate } from '../../../src/db/migrate.ts';
import { openServerDatabase } from '../../../src/db/pool.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { listSubjects } from '../../../src/memory/records/subjects.ts';
import { describePostgres, runAsAdmin } from '../../support/postgres.ts';
import { createProject } from '../calls.ts';

/** Runs `work` with a database whose collation is that of English, and drops it. */
async function withEnglish(work: (database: Database) => Promise<void>): Promise<void> {
  const adminUrl = process.env.GATEWAY_TEST_POSTGRES_URL ?? '';
  const name = `gateway_test_${randomUUID().replaceAll('-', '')}`;
  await runAsAdmin(adminUrl, `create database ${name} template template0 encoding 'UTF8' locale_provider icu icu_locale 'en'`);
  const database = openServerDatabase({
    connectionString: Object.assign(new URL(adminUrl), { pathname: `/${name}` }).href,
    maxConnections: 2,
  });
  try {
    await migrate(database);
    await work(database);
  } finally {
    await database.close();
    await runAsAdmin(adminUrl, `drop database ${name} with (force)`);
  }
}

describePostgres('the list of end users', () => {
  test('finds all end users with a prefix, even if other ids sort between them', () =>
    withEnglish(async (database) => {
      const projectId = await createProject(database);
      const { write } = createItems({ database, clock: systemClock });
      const item = { text: 'A fact', kind: 'fact', importance: 3, pinned: false } as const;
      // In English, `user-1`, `User-1` and `user-2` follow each other in this order.
      for (let index = 0; index < 30; index += 1)
        for (const name of ['user', 'User'])
          await write(projectId, { ...item, subject: `${name}-${index}` }, { origin: 'person', author: 'person:1' });
      const all: string[] = [];
      for (let after: string | null = null; ; ) {
        const { subjects } = await listSubjects(database, projectId, { prefix: 'user-', after, limit: 8 });
        all.push(...subjects.slice(0, 7));
        if (subjects.length < 8) break;
        after = subjects[6] ?? null;
      }
      expect(all).toHaveLength(30);
      expect(new Set(all)).toEqual(new Set(Array.from({ length: 30 }, (_, index) => `user-${index}`)));
      expect(await listSubjects(database, projectId, { prefix: 'User-1', after: null, limit: 3 })).toEqual({
        subjects: ['User-1', 'User-10', 'User-11'],
        stoppedAt: null,
      });
      expect(await listSubjects(database, projectId, { prefix: 'zzz', after: null, limit: 3 })).toEqual({ subjects: [], stoppedAt: null });
    }));

  test('continues a search for end users from where the previous page had to stop', () =>
    withEnglish(async (database) => {
      const projectId = await createProject(database);
      await database.query(
        `insert into memory_items (id, project_id, subject, text, kind, importance, origin, author)
         select gen_random_uuid(), $1::uuid, subject, 'x', 'fact', 3, 'person', 'person:1'
           from (select 'User-' || to_char(number, 'FM0000') from generate_series(1, 300) number
                 union all select 'user-9000' union all select 'user-9001 \u{1f600}'
                 union all select 'visitor-' || number from generate_series(1, 300) number) as subjects (subject)`,
        [projectId],
      );
      const list = (prefix: string, after: string | null) => listSubjects(database, projectId, { prefix, after, limit: 3 });
      const first = await list('user-', null);
      expect(first).toEqual({ subjects: [], stoppedAt: 'User-0201' });
      // Those after the last one aren't between the results, however many they are.
      expect(await list('user-', first.stoppedAt)).toEqual({ subjects: ['user-9000', 'user-9001 \u{1f600}'], stoppedAt: null });
      expect(await list('user-90000', null)).toEqual({ subjects: [], stoppedAt: null });

      const analytics = { subjectUse: async () => new Map(), subjectCalls: () => Promise.reject(new Error('not needed')) };
      const deps = { queries: database, analytics, readStored: <Result>(read: () => Promise<Result>) => read() };
      const show = async (query: string): Promise<string> => {
        const context = { project: { id: projectId, slug: 'acme' }, url: new URL(`http://gateway/end-users${query}`), zone: 'UTC', now: 0 };
        return String((await listPage(deps, context as ConsoleContext)).content);
      };
      const page = await show('?q=user-');
      expect(page).toContain('There may be some on the next page.');
      const next = /rel="next" href="[^"?]*(\?[^"]*)"/.exec(page)?.[1]?.replaceAll('&amp;', '&') ?? '';
      expect(await show(next)).toContain('user-9000');
      expect(await show('?q=user-90000')).toContain('No end user’s id begins like this.');
    }));
});
