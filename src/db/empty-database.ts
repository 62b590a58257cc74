/**
 * Unpacks the empty database that ships with the gateway. We use it on the first start, because PGlite's `initdb` takes
 * seconds and a gigabyte of memory.
 *
 * All copies have the same system identifier. That's fine, because it only matters for replication and WAL backups, and
 * PGlite supports neither.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';

/**
 * Returns the location of the file that `scripts/write-empty-database.js` writes. The file name contains a hash of
 * PGlite's WebAssembly, so a different version of PGlite never picks it up.
 */
export async function emptyDatabaseFile(): Promise<URL> {
  const program = join(dirname(createRequire(import.meta.url).resolve('@electric-sql/pglite')), 'pglite.wasm');
  const hash = createHash('sha256')
    .update(await readFile(program))
    .digest('hex');
  return new URL(`./empty-database/${hash.slice(0, 16)}.tar.gz`, import.meta.url);
}

/**
 * Unpacks the database into an empty folder. Returns false if we don't ship one for the installed version of PGlite.
 * Throws if the file is damaged.
 */
export async function unpackEmptyDatabase(folder: string): Promise<boolean> {
  const file = await emptyDatabaseFile();
  if (!existsSync(file)) return false;
  // We unpack the archive ourselves, because PGlite would keep all 25 MB of it in memory.
  for (const { name, content } of readTar(await promisify(gunzip)(await readFile(file)))) {
    if (content) await writeFile(join(folder, name), content);
    else await mkdir(join(folder, name), { recursive: true });
  }
  return true;
}

/** Yields the files and folders in a tar archive (`ustar`). Folders have no content. */
function* readTar(archive: Buffer): Generator<{ name: string; content: Buffer | null }> {
  const text = (start: number, length: number): string =>
    archive
      .toString('latin1', start, start + length)
      .split('\0', 1)
      .join('');
  for (let header = 0; text(header, 100) !== ''; ) {
    const content = header + 512;
    const size = Number.parseInt(text(header + 124, 12), 8);
    const isFolder = text(header + 156, 1) === '5';
    yield { name: text(header, 100), content: isFolder ? null : archive.subarray(content, content + size) };
    header = content + Math.ceil(size / 512) * 512;
  }
}
