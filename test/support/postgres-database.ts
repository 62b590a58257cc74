/** Creates databases on the test server (see global-setup.ts). Each test file has its own database. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import type { Database } from '../../src/db/database.ts';
import { openServerDatabase } from '../../src/db/pool.ts';

/** A database for a test or test file. */
export interface TestDatabase {
  readonly name: string;
  readonly url: string;
  drop(): Promise<void>;
}

/** Creates a database with the current schema, or one without schema and extensions (`empty`). Drop it afterwards. */
export async function createTestDatabase(content: 'migrated' | 'empty' = 'migrated'): Promise<TestDatabase> {
  const { GATEWAY_TEST_POSTGRES_URL: adminUrl, GATEWAY_TEST_POSTGRES_TEMPLATE: template } = process.env;
  if (!adminUrl) throw new Error(`No PostgreSQL for the tests: ${process.env.GATEWAY_TEST_POSTGRES_MISSING ?? 'run them with npm test'}`);
  const name = `gateway_test_${randomUUID().replaceAll('-', '')}`;
  const source = content === 'migrated' && template ? template : 'template0';
  // By default, PostgreSQL writes each page to the write-ahead log. Copying the files takes half as much CPU time.
  await runAsAdmin(adminUrl, `create database ${name} template ${source} strategy file_copy`);
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return {
    name,
    url: url.href,
    // A failed test may have left connections open. Close them with `force`, because the database can't be dropped
    // otherwise.
    drop: () => runAsAdmin(adminUrl, `drop database if exists ${name} with (force)`),
  };
}

/** Runs `work` with an empty database and drops it afterwards. */
export async function withPostgres<Result>(work: (url: string) => Promise<Result>): Promise<Result> {
  const database = await createTestDatabase('empty');
  try {
    return await work(database.url);
  } finally {
    await database.drop();
  }
}

/**
 * Opens a database on the test server. A service waits two seconds for a connection, which is too short on a busy
 * machine, so this waits longer.
 */
export function openTestDatabase(url: string, maxConnections: number): Database {
  return openServerDatabase({ connectionString: url, maxConnections, connectTimeoutMs: 60_000 });
}

/** Runs a statement as the database administrator. */
export async function runAsAdmin(adminUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl, connectionTimeoutMillis: 60_000 });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
