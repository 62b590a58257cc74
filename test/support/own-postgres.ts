/** A PostgreSQL of a test's own, which it may kill, start again and freeze. Skipped where this machine has no server's programs. */
import { describe } from '@jest/globals';
import { ensurePostgres } from './postgres-install.ts';
import { type PostgresServer, startPostgres } from './postgres-server.ts';

const bin = await ensurePostgres().catch(() => null);

export const describeOwnPostgres = bin !== null || process.env.CI === 'true' ? describe : describe.skip;

/** Whoever starts it stops it. */
export async function startOwnPostgres(): Promise<PostgresServer> {
  return startPostgres(bin ?? (await ensurePostgres()), { keepsCommits: true });
}
