import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import pg from 'pg';
import type { Database } from '../../src/db/database.ts';
import { checkSchema, migrate, SchemaError } from '../../src/db/migrate.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { describePostgres, withPostgres } from '../support/postgres.ts';
import { until } from '../support/temporal.ts';
import { describeDatabases } from './databases.ts';

describeDatabases('the shipped schema', (database) => {
  test('migrations create the complete schema, and a second run changes nothing', async () => {
    await checkSchema(database());
    expect(await migrate(database())).toEqual({ applied: 0 });
  });
});

describePostgres('migrate', () => {
  let folder = '';
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'gateway-migrations-'));
    await write({ '0001_first.sql': 'create table first (n integer);\ninsert into first values (1);' });
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  const write = async (files: Record<string, string>): Promise<void> => {
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  };
  const url = (): URL => pathToFileURL(`${folder}/`);
  const withDatabase = (work: (database: Database, connectionString: string) => Promise<void>): Promise<void> =>
    withPostgres(async (connectionString) => {
      const database = openServerDatabase({ connectionString, maxConnections: 2 });
      try {
        await work(database, connectionString);
      } finally {
        await database.close();
      }
    });

  test('applies missing migrations in order', () =>
    withDatabase(async (database) => {
      await migrate(database, url());
      await write({ '0002_second.sql': 'alter table first add column m integer;', '0003_third.sql': 'update first set m = 2;' });
      await expect(checkSchema(database, url())).rejects.toThrow(
        'the database is missing migration 0002_second, 0003_third; run: gateway migrate',
      );
      expect(await migrate(database, url())).toEqual({ applied: 2 });
      const rows = await database.query('select name from schema_migrations order by version');
      expect(rows.map(({ name }) => name)).toEqual(['0001_first', '0002_second', '0003_third']);
      expect(await database.query('select n, m from first')).toEqual([{ n: 1, m: 2 }]);
      await checkSchema(database, url());
    }));

  test('applies each migration once if several processes start at the same time', () =>
    withDatabase(async (_database, connectionString) => {
      await write({ '0002_slow.sql': 'select pg_sleep(0.3); create table second (n integer);' });
      const runners = Array.from({ length: 4 }, () => openServerDatabase({ connectionString, maxConnections: 1 }));
      try {
        const results = await Promise.all(runners.map((database) => migrate(database, url())));
        expect(results.reduce((sum, { applied }) => sum + applied, 0)).toBe(2);
      } finally {
        await Promise.all(runners.map((database) => database.close()));
      }
    }));

  test('retries a migration after a deadlock with a running server', () =>
    withDatabase(async (database, connectionString) => {
      await migrate(database, url());
      await database.query('create table second (n integer)');
      await write({ '0002_columns.sql': 'alter table second add column m integer; alter table first add column m integer;' });
      const server = new pg.Client({ connectionString });
      await server.connect();
      try {
        await server.query(`set deadlock_timeout = '1min'; begin; insert into first values (2)`);
        const migrated = migrate(database, url());
        await until('the migration waits', async () => {
          const waiting = await database.query(
            `select 1 from pg_locks where not granted and relation = 'first'::regclass and mode = 'AccessExclusiveLock'`,
          );
          return waiting.length > 0;
        });
        await server.query('insert into second values (1); commit');
        expect(await migrated).toEqual({ applied: 1 });
      } finally {
        await server.end();
      }
    }));

  test('rolls back a failed migration and names it in the error', () =>
    withDatabase(async (database) => {
      await write({ '0002_broken.sql': 'create table half (n integer); select * from nowhere;' });
      await expect(migrate(database, url())).rejects.toThrow('migration 0002_broken failed: relation "nowhere" does not exist');
      expect(await database.query(`select to_regclass('half') as "half", to_regclass('first')::text as "first"`)).toEqual([
        { half: null, first: 'first' },
      ]);
    }));

  test('builds indexes concurrently while rows are being written', () =>
    withDatabase(async (database, connectionString) => {
      await write({
        '0002_parts.sql': `create table parts (n integer, m integer) partition by range (n);
          create table parts_low partition of parts for values from (0) to (10); create table parts_rest partition of parts default;`,
      });
      await migrate(database, url());
      const indexes = ['create index parts_by_m on parts (m, n desc) where m > 0;', 'create index first_by_n on first (n);'];
      await write({ '0003_indexes.sql': `-- concurrently\n-- Why.\n${indexes.join('\n')}\n` });
      const writer = new pg.Client({ connectionString });
      await writer.connect();
      try {
        // A build waits for this writer, but other writers don't wait for the build.
        await writer.query('begin; insert into parts_low values (1, 1)');
        const migrated = migrate(database, url());
        await until('the build waits', async () => {
          const waiting = await database.query(
            `select 1 from pg_stat_activity where query like 'create index concurrently%' and wait_event_type = 'Lock'`,
          );
          return waiting.length > 0;
        });
        await database.query('insert into parts values (2, 2), (20, 2)');
        await writer.query('commit');
        expect(await migrated).toEqual({ applied: 1 });
      } finally {
        await writer.end();
      }
      // This is the state after an interrupted build.
      await database.query(`update pg_index set indisvalid = false where indexrelid = 'first_by_n'::regclass`);
      await database.query('delete from schema_migrations where version = 3');
      expect(await migrate(database, url())).toEqual({ applied: 1 });
      expect(
        await database.query(
          `select indexrelid::regclass::text as name, indisvalid as valid from pg_index where indrelid::regclass::text ~ '^(parts|first)' order by 1`,
        ),
      ).toEqual(['first_by_n', 'parts_by_m', 'parts_by_m_parts_low', 'parts_by_m_parts_rest'].map((name) => ({ name, valid: true })));
    }));

  test('rejects a concurrent migration that does more than create indexes', () =>
    withDatabase(async (database) => {
      await write({ '0002_mixed.sql': '-- concurrently\ncreate index first_by_n on first (n);\nupdate first set n = 2;' });
      await expect(migrate(database, url())).rejects.toThrow(
        'migration 0002_mixed is concurrent and contains something other than create index',
      );
    }));

  test('lets older servers keep running until a migration raises oldest_server', () =>
    withDatabase(async (database) => {
      const old = await mkdtemp(join(tmpdir(), 'gateway-migrations-old-'));
      await writeFile(join(old, '0001_first.sql'), 'create table first (n integer);\ninsert into first values (1);');
      const oldUrl = pathToFileURL(`${old}/`);
      await write({ '0002_wider.sql': 'create table wider (n integer);' });
      await migrate(database, url());
      await checkSchema(database, oldUrl);
      expect(await migrate(database, oldUrl)).toEqual({ applied: 0 });
      await write({ '0003_narrower.sql': '-- oldest_server: 2\ndrop table first;' });
      await migrate(database, url());
      await expect(checkSchema(database, oldUrl)).rejects.toThrow(SchemaError);
      await expect(migrate(database, oldUrl)).rejects.toThrow(
        /^the database needs schema 2 or newer; this is gateway \d+\.\d+\.\d+\S*, schema 1: install a newer gateway, or restore/,
      );
      await rm(old, { recursive: true });
    }));

  test('rejects a migration that was edited after it was applied', () =>
    withDatabase(async (database) => {
      await migrate(database, url());
      await write({ '0001_first.sql': 'create table first (n integer);\r\ninsert into first values (1);' });
      await migrate(database, url());
      await write({ '0001_first.sql': 'create table first (n bigint);' });
      await expect(migrate(database, url())).rejects.toThrow('migration 0001_first was changed after it was applied');
    }));

  test('rejects gaps in the migration numbers', () =>
    withDatabase(async (database) => {
      await write({ '0003_third.sql': 'select 1;' });
      await expect(migrate(database, url())).rejects.toThrow('numbered without gaps');
    }));
});
