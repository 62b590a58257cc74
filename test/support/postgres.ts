/**
 * Lets tests use real PostgreSQL, with one server per run (see global-setup.ts) and one database per test file.
 *
 * If there's no server, tests in `describePostgres` are skipped and we print the reason. With CI=true they fail.
 */
import { describe } from '@jest/globals';

export { createTestDatabase, openTestDatabase, runAsAdmin, withPostgres } from './postgres-database.ts';

/** Like `describe`, but for tests that need PostgreSQL. */
export function describePostgres(title: string, tests: () => void): void {
  const isRun = process.env.GATEWAY_TEST_POSTGRES_URL || process.env.CI === 'true';
  (isRun ? describe : describe.skip)(title, tests);
}
