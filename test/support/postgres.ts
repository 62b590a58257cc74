/**
 * Real PostgreSQL for tests, with one server per run (see global-setup.ts) and one database per test file.
 *
 * Without a server, tests in `describePostgres` are skipped with a line that gives the reason. With CI=true they fail
 * with that line.
 */
import { describe } from '@jest/globals';

export { createTestDatabase, runAsAdmin, withPostgres } from './postgres-database.ts';

/** A `describe` for tests that need PostgreSQL. */
export function describePostgres(title: string, tests: () => void): void {
  const isRun = process.env.GATEWAY_TEST_POSTGRES_URL || process.env.CI === 'true';
  (isRun ? describe : describe.skip)(title, tests);
}
