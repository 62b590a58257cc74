/**
 * The empty database that ships with the gateway, which a first start unpacks: PGlite's `initdb` takes seconds and a gigabyte of memory.
 *
 * Every copy has the same system identifier, which only replication and backups of the write-ahead log use; PGlite has neither.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';

/** Where `scripts/write-empty-database.js` puts it. The name is the hash of PGlite's PostgreSQL, so that no other one reads it. */
export async function emptyDatabaseFile(): Promise<URL> {
  const program = join(dirname(createRequire(import.meta.url).resolve('@electric-sql/pglite')), 'pglite.wasm');
  const hash = createHash('sha256')
    .update(await readFile(program))
    .digest('hex');
  return new URL(`./empty-database/${hash.slice(0, 16)}.tar.gz`, import.meta.url);
}

/** The archive, as PGlite loads it; null when there is none for the installed PGlite. Throws when it is damaged. */
export async function readEmptyDatabase(): Promise<Blob | null> {
  const file = await emptyDatabaseFile();
  if (!existsSync(file)) return null;
  return new Blob([await promisify(gunzip)(await readFile(file))]);
}
