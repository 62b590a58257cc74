/** Runs a group of tests on the embedded database as well as on PostgreSQL. */
import { describe } from '@jest/globals';
import { describePostgres } from '../support/postgres.ts';

export function onBothDatabases(title: string, tests: (database: 'embedded' | 'server') => void): void {
  describe(`${title} on PGlite`, () => tests('embedded'));
  describePostgres(`${title} on PostgreSQL`, () => tests('server'));
}
