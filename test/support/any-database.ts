/** Opens a database for a test that doesn't depend on the kind of database. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Database } from '../../src/db/database.ts';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { copyEmbeddedTemplate } from './embedded-template.ts';
import { createTestDatabase, openTestDatabase } from './postgres-database.ts';

export interface AnyDatabase {
  readonly database: Database;
  /** Closes and removes the database. */
  close(): Promise<void>;
}

/** Opens a migrated PostgreSQL database, because PGlite takes twice the CPU time. Without a server, opens PGlite. */
export async function openAnyDatabase(): Promise<AnyDatabase> {
  if (process.env.GATEWAY_TEST_POSTGRES_URL) {
    const { url, drop } = await createTestDatabase();
    const database = openTestDatabase(url, 4);
    await migrate(database);
    return { database, close: () => database.close().then(drop) };
  }
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-db-'));
  copyEmbeddedTemplate(dataDir);
  const database = await openEmbeddedDatabase({ dataDir });
  await migrate(database);
  return { database, close: () => database.close().then(() => rm(dataDir, { recursive: true, force: true })) };
}
