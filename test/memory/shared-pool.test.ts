/** Tests that requests of one project can't use up the connections that all projects share. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { systemClock } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import { lockProject } from '../../src/db/locks.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { createErase } from '../../src/memory/erasure/erase.ts';
import { createItems } from '../../src/memory/items/items.ts';
import { createBatches } from '../../src/memory/learning/batches.ts';
import { createRemember } from '../../src/memory/learning/remember.ts';
import { createExportMemory } from '../../src/memory/portability/export-memory.ts';
import { createImportMemory } from '../../src/memory/portability/import-memory.ts';
import { createMemorySettings } from '../../src/memory/records/settings.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import type { TestDatabase } from '../support/postgres-database.ts';
import { createProject } from './calls.ts';

describePostgres('requests that wait for each other', () => {
  let created: TestDatabase;
  /** The main pool of a process. It's one connection larger than what a single project may use. */
  let database: Database;
  /** Locks the project, and looks at who is waiting for it. */
  let observer: Database;
  beforeAll(async () => {
    created = await createTestDatabase();
    database = openServerDatabase({ connectionString: created.url, maxConnections: 5, connectTimeoutMs: 3_000 });
    observer = openTestDatabase(created.url, 2);
  });
  afterAll(async () => {
    await database.close();
    await observer.close();
    await created.drop();
  });

  type Send = (deps: { database: Database; clock: typeof systemClock }, projectId: string) => Promise<unknown>;
  const byPerson = { origin: 'person', author: 'person:1' } as const;
  const lines = async function* (text: string): AsyncGenerator<Uint8Array> {
    yield Buffer.from(text);
  };
  const requests: [name: string, send: Send][] = [
    ['erase a subject', (deps, projectId) => createErase(deps)({ projectId, subject: randomUUID(), askedBy: 'key:a' })],
    ['remember a conversation', (deps, projectId) => createRemember(deps)(projectId, randomUUID(), null)],
    [
      'write a memory',
      (deps, projectId) =>
        createItems(deps).write(projectId, { text: 'tea', kind: 'fact', subject: null, importance: 3, pinned: false }, byPerson),
    ],
    ['remove a memory', (deps, projectId) => createItems(deps).remove(projectId, randomUUID(), byPerson)],
    ['export memory', (deps, projectId) => createExportMemory(deps)({ projectId, project: 'acme', subject: null }).next()],
    [
      'import memory',
      (deps, projectId) =>
        createImportMemory(deps)({
          ...{ projectId, project: 'acme', format: 'list', dryRun: false, restoreErased: false },
          chunks: lines('[{"text": "Ann likes tea", "subject": "ann"}]'),
        }),
    ],
    ['change the settings', (deps, projectId) => createMemorySettings(deps).change(projectId, { batch_of: 3 })],
    ['replay all batches', (deps, projectId) => createBatches({ ...deps, uiUrl: async () => null }).replayAll(projectId, 'failed')],
  ];

  test.each(requests)('keeps connections free for other projects when many callers %s', async (_name, send) => {
    const projectId = await createProject(observer);
    await observer.query(
      `insert into memory_batches (id, project_id, kind, state) values (gen_random_uuid(), $1::uuid, 'normal', 'failed')`,
      [projectId],
    );
    const sent: Promise<unknown>[] = [];
    await observer.transaction(async (tx) => {
      await lockProject(tx, projectId, 'exclusive');
      await tx.query(`select 1 from projects where id = $1::uuid for update`, [projectId]);
      await tx.query(`select 1 from memory_batches where project_id = $1::uuid for update`, [projectId]);
      for (let index = 0; index < 8; index += 1) sent.push(send({ database, clock: systemClock }, projectId).catch(() => undefined));
      for (let waiting = 0; waiting < 4; ) {
        const [row] = await observer.query<{ count: number }>(
          `select count(*)::integer as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
        waiting = row?.count ?? 0;
      }
      expect(await database.query(`select 'of another project' as query`)).toEqual([{ query: 'of another project' }]);
    });
    await Promise.all(sent);
  });
});
