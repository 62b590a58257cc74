/**
 * Tests a database that is up but can't store calls, because an index is damaged or because statements fail with an
 * internal error.
 */
import { mkdtemp, open, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import type { Database } from '../../src/db/database.ts';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { createDrain } from '../../src/journal/drain.ts';
import { createJournal } from '../../src/journal/journal.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { describeAnyDatabase } from '../db/databases.ts';
import { copyEmbeddedTemplate } from '../support/embedded-template.ts';
import { until } from '../support/until.ts';
import { clockAt, keepingLogger, noon, settledCall, withFolder, withText } from './calls.ts';

/**
 * Settles calls while the database is damaged, then repairs it. Expects that all calls are stored with their text and
 * that nothing was quarantined.
 */
async function expectAllStoredAfterRepair(database: Database, expectedCode: string, repair: () => Promise<unknown>): Promise<void> {
  const texts: string[] = [];
  const store = async (...[tx, calls]: Parameters<typeof storeCalls>): Promise<void> => {
    await storeCalls(tx, calls);
    texts.push(...calls.map(({ content }) => content?.request.toString() ?? 'no text'));
  };
  await withFolder(async (dataDir) => {
    const [clock, logger] = [clockAt(noon), keepingLogger()];
    const journal = await createJournal({ dataDir, clock, logger, sync: false, ballastBytes: 100 });
    const drain = createDrain({ dataDir, journal, database, store, clock, logger, intervalMs: 5 });
    try {
      drain.start();
      const calls = Array.from({ length: 20 }, (_value, index) => settledCall({ content: withText(`text ${index}`) }));
      await Promise.all(calls.map((call) => journal.settle(call)));
      await until('the failure is logged', () => logger.lines.some(({ level }) => level === 'error'));
      expect(logger.lines).toMatchObject([
        { message: 'failed to copy the journal to the database; records are kept on disk', fields: { err: { code: expectedCode } } },
      ]);
      expect(drain.counts()).toMatchObject({ stored: 0, quarantined: 0, rejected: 0 });
      expect(drain.counts().backlogBytes).toBeGreaterThan(0);
      await repair();
      await until('all calls are stored', () => drain.counts().backlogBytes === 0);
      expect(drain.counts()).toMatchObject({ stored: 20, quarantined: 0, rejected: 0 });
      expect(texts.toSorted()).toEqual(calls.map(({ content }) => content?.request.toString()).toSorted());
      expect(await countStored(database, calls)).toBe(20);
      expect(await readdir(join(dataDir, 'journal'))).not.toContain('quarantine');
    } finally {
      await drain.stop();
      await journal.close();
    }
  });
}

describeAnyDatabase('a database error that affects every record', (database) => {
  test.each(['XX000', 'XX001', 'XX002', '0A000', 'P0001', '58030'])(
    'keeps calls in the journal after %s until the database is repaired',
    async (code) => {
      await database().query(`create or replace function fail_calls() returns trigger language plpgsql as
      $$ begin raise exception 'planted' using errcode = '${code}'; end $$`);
      await database().query('create trigger fail_calls before insert on calls for each row execute function fail_calls()');
      await expectAllStoredAfterRepair(database(), code, () => database().query('drop trigger fail_calls on calls'));
    },
  );
});

test('keeps all calls in the journal while a database index is damaged', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-damaged-'));
  copyEmbeddedTemplate(dataDir);
  const intact = await openEmbeddedDatabase({ dataDir });
  await migrate(intact);
  await intact.transaction((tx) => storeCalls(tx, [settledCall()]));
  const [index] = await intact.query<{ file: string }>(`select pg_relation_filepath('attempts_default_pkey') as file`);
  await intact.close();
  const file = await open(join(dataDir, 'db', index?.file ?? ''), 'r+');
  const { size } = await file.stat();
  await file.write(Buffer.alloc(size));
  await file.close();
  const database = await openEmbeddedDatabase({ dataDir });
  try {
    await expectAllStoredAfterRepair(database, 'XX002', () => database.query('reindex index attempts_default_pkey'));
  } finally {
    await database.close();
    await rm(dataDir, { recursive: true, force: true });
  }
});

async function countStored(database: Database, calls: readonly SettledCall[]): Promise<number> {
  const [row] = await database.query<{ count: number }>('select count(*)::integer as count from calls where id = any ($1::uuid[])', [
    calls.map(({ metadata }) => metadata.id),
  ]);
  return row?.count ?? 0;
}
