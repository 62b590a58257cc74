/**
 * A PostgreSQL server for one test, which may kill, restart and freeze it. Tests are skipped if the machine doesn't
 * have the server's programs.
 */
import { describe } from '@jest/globals';
import { ensurePostgres } from './postgres-install.ts';
import { type PostgresServer, startPostgres } from './postgres-server.ts';

const bin = await ensurePostgres().catch(() => null);

export function describeOwnPostgres(title: string, tests: () => void): void {
  (bin !== null || process.env.CI === 'true' ? describe : describe.skip)(title, tests);
}

/** The caller has to stop it. */
export async function startOwnPostgres(): Promise<PostgresServer> {
  return startPostgres(await postgresPrograms(), { keepsCommits: true });
}

/** The folder of the server's programs. */
export async function postgresPrograms(): Promise<string> {
  return bin ?? (await ensurePostgres());
}
