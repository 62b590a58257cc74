/**
 * Starts a PostgreSQL server that a single test can kill, restart and freeze. The test is skipped if PostgreSQL isn't
 * installed.
 */
import { describe } from '@jest/globals';
import { migrate } from '../../src/db/migrate.ts';
import { openTestDatabase } from './postgres-database.ts';
import { ensurePostgres } from './postgres-install.ts';
import { type PostgresServer, startPostgres } from './postgres-server.ts';

const bin = await ensurePostgres().catch(() => null);

export function describeOwnPostgres(title: string, tests: () => void): void {
  (bin !== null || process.env.CI === 'true' ? describe : describe.skip)(title, tests);
}

/** The caller has to stop the server. */
export async function startOwnPostgres(): Promise<PostgresServer> {
  return startPostgres(await postgresPrograms(), { keepsCommits: true });
}

/** Starts a server whose database has the current schema. The caller has to stop it. */
export async function startMigratedPostgres(): Promise<PostgresServer> {
  const server = await startOwnPostgres();
  const database = openTestDatabase(server.url, 2);
  await migrate(database);
  await database.close();
  return server;
}

/** Returns the folder that has the server's programs. */
export async function postgresPrograms(): Promise<string> {
  return bin ?? (await ensurePostgres());
}
