/**
 * Opens the PostgreSQL server for a benchmark. Uses the server at DATABASE_URL, or starts a private one as the tests
 * do. Each gateway gets its own database.
 */
import { randomUUID } from 'node:crypto';
import process from 'node:process';
import pg from 'pg';
import { ensurePostgres } from '../../test/support/postgres-install.ts';
import { startPostgres } from '../../test/support/postgres-server.ts';
import { nameOf, parentOf, serverCpuMs, threadMs } from './proc.js';

/**
 * @param {import('../../test/support/postgres-server.ts').PostgresServerOptions} [options] options of the private
 * server
 */
export async function openPostgres(options) {
  const given = process.env['DATABASE_URL'];
  const server = given ? { url: given, stop: async () => {} } : await startPostgres(await ensurePostgres(), options);
  const admin = new pg.Client({ connectionString: server.url });
  await admin.connect();
  const { rows } = await admin.query('select pg_backend_pid() as pid, version()');
  const parent = parentOf(rows[0].pid);
  // If the server runs on another host, we can't measure it.
  const serverPid = parent !== null && /^postgre/.test(nameOf(parent)) ? parent : null;
  /** @type {{ name: string, client: pg.Client }[]} */
  const databases = [];
  return {
    /** The server's version, e.g. `PostgreSQL 17.2`. */
    version: String(rows[0].version).split(' on ', 1).join(''),
    async createDatabase() {
      const name = `gateway_benchmark_${randomUUID().replaceAll('-', '')}`;
      await admin.query(`create database ${name}`);
      const url = new URL(server.url);
      url.pathname = `/${name}`;
      const client = new pg.Client({ connectionString: url.href });
      await client.connect();
      const own = await client.query('select pg_backend_pid() as pid');
      databases.push({ name, client });
      return {
        url: url.href,
        countCalls: async () => Number((await client.query('select count(*) from calls')).rows[0].count),
        /** Returns the size of the database after a VACUUM, including indexes and TOAST. */
        storedBytes: async () => {
          await client.query('vacuum');
          return Number((await client.query('select pg_database_size(current_database()) as bytes')).rows[0].bytes);
        },
        /** Returns how much CPU time the server has used so far, not counting the benchmark's own queries. */
        cpuMs: () =>
          serverPid === null ? Number.NaN : serverCpuMs(serverPid) - [...threadMs(own.rows[0].pid).values()].reduce((a, b) => a + b, 0),
      };
    },
    async close() {
      for (const { name, client } of databases) {
        await client.end();
        await admin.query(`drop database if exists ${name} with (force)`);
      }
      await admin.end();
      await server.stop();
    },
  };
}
