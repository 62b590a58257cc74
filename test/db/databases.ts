/**
 * Runs tests on both kinds of database, after migrations. Each test file shares one PostgreSQL and one PGlite database.
 * PGlite starts with a copy of a template.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { copyEmbeddedTemplate } from '../support/embedded-template.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';

/** Runs `tests` on PGlite and on PostgreSQL. You can only call `database()` inside tests. */
export function describeDatabases(title: string, tests: (database: () => Database) => void): void {
  describe(`${title} (embedded)`, () => runWith(openEmbedded, tests));
  describePostgres(`${title} (PostgreSQL)`, () => runWith(openServer, tests));
}

interface OpenDatabase {
  readonly database: Database;
  close(): Promise<void>;
}

function runWith(open: () => Promise<OpenDatabase>, tests: (database: () => Database) => void): void {
  let opened: OpenDatabase | null = null;
  beforeAll(async () => {
    opened = await open();
    await migrate(opened.database);
  });
  afterAll(() => opened?.close());
  tests(() => {
    if (!opened) throw new Error('the database is available in tests, not in describe');
    return opened.database;
  });
}

async function openEmbedded(): Promise<OpenDatabase> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-db-'));
  copyEmbeddedTemplate(dataDir);
  const database = await openEmbeddedDatabase({ dataDir });
  return {
    database,
    async close() {
      await database.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function openServer(): Promise<OpenDatabase> {
  const { url, drop } = await createTestDatabase();
  const database = openTestDatabase(url, 4);
  return {
    database,
    async close() {
      await database.close();
      await drop();
    },
  };
}
