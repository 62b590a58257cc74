/** Lends both databases, migrated, to tests that must hold on each. A file of tests shares one of each, PGlite a copy of the template. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { copyEmbeddedTemplate } from '../support/embedded-template.ts';
import { createTestDatabase, describePostgres } from '../support/postgres.ts';

/** Runs `tests` on PGlite and on PostgreSQL; `database()` may be called inside of tests only. */
export function describeDatabases(title: string, tests: (database: () => Database) => void): void {
  describe(`${title} (embedded)`, () => runWith(openLentEmbedded, tests));
  describePostgres(`${title} (PostgreSQL)`, () => runWith(openLentServer, tests));
}

interface Lent {
  readonly database: Database;
  takeBack(): Promise<void>;
}

function runWith(open: () => Promise<Lent>, tests: (database: () => Database) => void): void {
  let lent: Lent | null = null;
  beforeAll(async () => {
    lent = await open();
    await migrate(lent.database);
  });
  afterAll(() => lent?.takeBack());
  tests(() => {
    if (!lent) throw new Error('the database is lent to tests, not to their describe');
    return lent.database;
  });
}

async function openLentEmbedded(): Promise<Lent> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-db-'));
  await copyEmbeddedTemplate(dataDir);
  const database = await openEmbeddedDatabase({ dataDir });
  return {
    database,
    async takeBack() {
      await database.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function openLentServer(): Promise<Lent> {
  const { url, drop } = await createTestDatabase();
  const database = openServerDatabase({ connectionString: url, maxConnections: 4 });
  return {
    database,
    async takeBack() {
      await database.close();
      await drop();
    },
  };
}
