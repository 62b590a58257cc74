/** Runs tests on migrated databases. All tests of a group share a database. */
import { afterAll, beforeAll, describe } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { type AnyDatabase, openAnyDatabase, openEmbedded, openServer, type TestOnAny, testOnAny } from '../support/any-database.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { describePostgres } from '../support/postgres.ts';

/**
 * Runs `tests` on PGlite and on PostgreSQL. You can only call `database()` inside tests. If a test is slow, and other
 * tests already run its SQL on both databases, use `testOnAny` instead of `test`.
 */
export function describeDatabases(title: string, tests: (database: () => Database, testOnAny: TestOnAny) => void): void {
  describe(`${title} (embedded)`, () => tests(shareDatabase(openEmbedded), testOnAny('embedded')));
  describePostgres(`${title} (PostgreSQL)`, () => tests(shareDatabase(openServer), testOnAny('server')));
}

/**
 * Runs `tests` on PostgreSQL, or on PGlite if there's no server. In exhaustive runs, they run on both. Only use this if
 * other tests already run all of the SQL on both, in `describeDatabases`.
 */
export function describeAnyDatabase(title: string, tests: (database: () => Database) => void): void {
  if (isExhaustive) describeDatabases(title, tests);
  else describe(title, () => tests(shareDatabase(openAnyDatabase)));
}

function shareDatabase(open: () => Promise<AnyDatabase>): () => Database {
  let opened: AnyDatabase | null = null;
  beforeAll(async () => {
    opened = await open();
  });
  afterAll(() => opened?.close());
  return () => {
    if (!opened) throw new Error('the database is available in tests, not in describe');
    return opened.database;
  };
}
