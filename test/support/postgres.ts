/**
 * Real PostgreSQL for tests: one server for a run (global-setup.ts), one database for whoever asks.
 *
 * Without a server, tests in `describePostgres` are skipped, with one line that says why; with CI=true they fail with that line instead.
 */
import { randomUUID } from 'node:crypto';
import { describe } from '@jest/globals';
import pg from 'pg';

/** An empty database of one's own. */
export interface TestDatabase {
  url: string;
  drop(): Promise<void>;
}

/** `describe` for tests that need PostgreSQL. */
export const describePostgres = process.env.GATEWAY_TEST_POSTGRES_URL || process.env.CI === 'true' ? describe : describe.skip;

/** Creates an empty database; extensions are left to the migrations. Whoever creates it drops it. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const adminUrl = process.env.GATEWAY_TEST_POSTGRES_URL;
  if (!adminUrl) throw new Error(`No PostgreSQL for the tests: ${process.env.GATEWAY_TEST_POSTGRES_MISSING ?? 'run them with npm test'}`);
  const name = `gateway_test_${randomUUID().replaceAll('-', '')}`;
  await runAsAdmin(adminUrl, `create database ${name}`);
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    // Connections that a test left open are cut: the database of a failed test must not outlive it.
    drop: () => runAsAdmin(adminUrl, `drop database if exists ${name} with (force)`),
  };
}

/** Lends an empty database to `work` and drops it afterwards. */
export async function withPostgres<Result>(work: (url: string) => Promise<Result>): Promise<Result> {
  const database = await createTestDatabase();
  try {
    return await work(database.url);
  } finally {
    await database.drop();
  }
}

async function runAsAdmin(adminUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl, connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
