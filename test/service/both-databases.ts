/** Runs a group of tests on the embedded database as well as on PostgreSQL, or on one of them. */
import { describe } from '@jest/globals';
import { type TestOnAny, testOnAny } from '../support/any-database.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { describePostgres } from '../support/postgres.ts';

/** In `testOnAny`, put slow tests whose SQL also runs in other tests on both databases. */
export function onBothDatabases(title: string, tests: (database: 'embedded' | 'server', testOnAny: TestOnAny) => void): void {
  describe(`${title} on PGlite`, () => tests('embedded', testOnAny('embedded')));
  describePostgres(`${title} on PostgreSQL`, () => tests('server', testOnAny('server')));
}

/** Like `describeAnyDatabase`. */
export function onAnyDatabase(title: string, tests: (database: 'embedded' | 'server' | 'any') => void): void {
  if (isExhaustive) onBothDatabases(title, tests);
  else describe(title, () => tests('any'));
}
