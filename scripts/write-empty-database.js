/**
 * Writes an empty database of the installed PGlite version to `src/db/empty-database/`. The service unpacks it when it
 * first starts, which is faster than `initdb`. Run this after you've upgraded PGlite. You need `tar`.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { PGlite } from '@electric-sql/pglite';
import { emptyDatabaseFile } from '../src/db/empty-database.ts';

const file = fileURLToPath(await emptyDatabaseFile());
const dataDir = await mkdtemp(join(tmpdir(), 'gateway-empty-database-'));
try {
  await createDatabase(dataDir);
  await rm(dirname(file), { recursive: true, force: true });
  await mkdir(dirname(file));
  await writeFile(file, gzipSync(await pack(dataDir), { level: 9 }));
} finally {
  await rm(dataDir, { recursive: true, force: true });
}

/** @param {string} dataDir */
async function createDatabase(dataDir) {
  const pglite = await PGlite.create({ dataDir });
  // PostgreSQL's template databases take up two thirds of the files, and we don't need them.
  await pglite.exec('update pg_database set datistemplate = false');
  for (const name of ['template0', 'template1']) await pglite.exec(`drop database ${name}`);
  await pglite.exec('vacuum freeze');
  // PostgreSQL recycles old WAL segments, so they're still full of what `initdb` has written. Switch to a new segment
  // so that we can delete the old ones. The new one is all zeros, which compress well.
  await pglite.exec('select pg_switch_wal()');
  await pglite.exec('checkpoint');
  await pglite.close();
  const log = join(dataDir, 'pg_wal');
  const [, ...unused] = (await readdir(log)).filter((name) => /^[0-9A-F]{24}$/.test(name)).sort();
  for (const name of unused) await rm(join(log, name));
}

/**
 * Creates the tar archive in PGlite's format.
 * @param {string} dataDir
 */
async function pack(dataDir) {
  const options = ['--format=ustar', '--sort=name', '--mtime=2000-01-01', '--owner=0', '--group=0', '--numeric-owner'];
  const files = (await readdir(dataDir)).sort();
  const { stdout } = await promisify(execFile)('tar', [...options, '--create', '--directory', dataDir, ...files], {
    encoding: 'buffer',
    maxBuffer: 256 * 1_024 * 1_024,
  });
  return stdout;
}
