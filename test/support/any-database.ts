/** Opens migrated databases, and decides which tests run on PGlite as well as on PostgreSQL. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { copyEmbeddedTemplate } from './embedded-template.ts';
import { isExhaustive } from './exhaustive.ts';
import { createTestDatabase, openTestDatabase } from './postgres-database.ts';

export interface AnyDatabase {
  readonly database: Database;
  /** Closes and removes the database. */
  close(): Promise<void>;
}

/** Opens PostgreSQL, because PGlite takes twice the CPU time. Without a server, opens PGlite. */
export function openAnyDatabase(): Promise<AnyDatabase> {
  return process.env.GATEWAY_TEST_POSTGRES_URL ? openServer() : openEmbedded();
}

/** Opens PGlite with a copy of the template. */
export async function openEmbedded(): Promise<AnyDatabase> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-db-'));
  copyEmbeddedTemplate(dataDir);
  const database = await openEmbeddedDatabase({ dataDir });
  await migrate(database);
  return { database, close: () => database.close().then(() => rm(dataDir, { recursive: true, force: true })) };
}

export async function openServer(): Promise<AnyDatabase> {
  const { url, drop } = await createTestDatabase();
  const database = openTestDatabase(url, 4);
  await migrate(database);
  return { database, close: () => database.close().then(drop) };
}

export type TestOnAny = (title: string, run: () => Promise<void>) => void;

/**
 * Returns a replacement for `test` in a group of tests that runs on both databases. On PGlite, it only registers tests
 * if there's no server or the run is exhaustive.
 */
export function testOnAny(kind: Database['kind']): TestOnAny {
  const isRun = kind === 'server' || isExhaustive || !process.env.GATEWAY_TEST_POSTGRES_URL;
  return isRun ? test : () => undefined;
}
