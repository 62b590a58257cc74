/**
 * Real PostgreSQL for tests: one server for a run (global-setup.ts), a database for each test file.
 *
 * Without a server, tests in `describePostgres` are skipped, with one line that gives the reason; with CI=true they fail with that line.
 */
import { describe } from '@jest/globals';

export { createTestDatabase, runAsAdmin, withPostgres } from './postgres-database.ts';

/** `describe` for tests that need PostgreSQL. */
export function describePostgres(title: string, tests: () => void): void {
  const isRun = process.env.GATEWAY_TEST_POSTGRES_URL || process.env.CI === 'true';
  (isRun ? describe : describe.skip)(title, tests);
}
