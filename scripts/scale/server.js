/**
 * Opens the database for `seed-scale` and `benchmark-scale`. This is either the one at DATABASE_URL or a private
 * server, which stops at the end of the script and keeps its files in a folder (`--data <folder>`). The private server
 * runs without fsync. After a power failure, seed the folder again.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, open, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { ensurePostgres } from '../../test/support/postgres-install.ts';
import { run } from '../../test/support/run.ts';
import { unusedPort } from '../../test/support/unused-port.ts';

const startLimitMs = 120_000;

/** @typedef {{ url: string, stop: () => Promise<void> }} ScaleServer */

/** @param {string | undefined} folder @returns {Promise<ScaleServer>} */
export async function openScaleServer(folder) {
  if (folder !== undefined) return startServer(resolve(folder));
  const url = process.env['DATABASE_URL'];
  if (!url) {
    console.error('no database: set DATABASE_URL, or pass --data <folder> to run a private server');
    process.exit(1);
  }
  return { url, stop: async () => {} };
}

/** @param {string} folder @returns {Promise<ScaleServer>} */
async function startServer(folder) {
  const bin = await ensurePostgres();
  const owner = await serverOwner();
  const data = join(folder, 'data');
  await mkdir(folder, { recursive: true });
  if (owner) await chown(folder, owner.uid, owner.gid);
  const exists = await stat(join(data, 'PG_VERSION')).catch(() => null);
  if (!exists) {
    const initialize = ['--pgdata', data, '--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'];
    await run(join(bin, 'initdb'), initialize, { ...owner, cwd: folder });
  }
  await writeFile(join(data, 'postgresql.auto.conf'), settings);
  const port = await unusedPort();
  const log = await open(join(folder, 'log'), 'a');
  const server = spawn(join(bin, 'postgres'), ['-D', data, '-p', String(port), '-k', folder], {
    ...owner,
    cwd: folder,
    // Ctrl-C should only reach this script, which then stops the server. So the server gets a session of its own.
    detached: true,
    stdio: ['ignore', log.fd, log.fd],
  });
  await log.close();
  const end = () => server.kill('SIGINT');
  process.once('exit', end);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
  for (const limitAt = performance.now() + startLimitMs; ; await sleep(100)) {
    const isReady = await run(join(bin, 'pg_isready'), ['--quiet', '--host=127.0.0.1', `--port=${port}`]).then(
      () => true,
      () => false,
    );
    if (isReady) break;
    if (server.exitCode !== null || performance.now() > limitAt) throw new Error(`PostgreSQL did not start; see ${join(folder, 'log')}`);
  }
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async stop() {
      process.off('exit', end);
      if (server.exitCode !== null) return;
      end();
      await once(server, 'exit');
    },
  };
}

/** PostgreSQL refuses to run as root. If we're root, it runs as Debian's `postgres` user. */
async function serverOwner() {
  if (process.getuid?.() !== 0) return null;
  const [uid, gid] = await Promise.all([run('id', ['-u', 'postgres']), run('id', ['-g', 'postgres'])]);
  return { uid: Number(uid), gid: Number(gid) };
}

const settings = `listen_addresses = '127.0.0.1'
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = 16GB
checkpoint_timeout = 30min
shared_buffers = 1GB
effective_cache_size = 4GB
`;
