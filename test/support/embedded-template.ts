/**
 * Creates an embedded database that has been migrated. Test files start with a copy of it, because migrating a new
 * database takes seconds of CPU time.
 *
 * The database is kept in `node_modules/.cache`, so it's only created in the first run after a new migration.
 */
import { createHash } from 'node:crypto';
import { cpSync, existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { emptyDatabaseFile } from '../../src/db/empty-database.ts';
import { migrate } from '../../src/db/migrate.ts';

const cacheFolder = fileURLToPath(new URL('../../node_modules/.cache/model-gateway/embedded-templates', import.meta.url));
const unfinished = 'unfinished-';

/**
 * Creates a copy of the template and puts its path into the environment for the test files. Returns a function that
 * removes the copy.
 */
export async function prepareEmbeddedTemplate(): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-template-'));
  const remove = (): Promise<void> => rm(dataDir, { recursive: true, force: true });
  const folder = join(dataDir, 'db');
  try {
    const cached = join(cacheFolder, await hashOfSchema());
    if (existsSync(cached)) {
      copyFolder(cached, folder);
    } else {
      await createDatabase(dataDir);
      await keep(folder, cached);
    }
  } catch (error) {
    await remove();
    throw error;
  }
  process.env.GATEWAY_TEST_EMBEDDED_TEMPLATE = folder;
  return remove;
}

/** Copies the template into a data directory, where it's used instead of creating a new database. */
export function copyEmbeddedTemplate(dataDir: string): void {
  const template = process.env.GATEWAY_TEST_EMBEDDED_TEMPLATE;
  if (template) copyFolder(template, join(dataDir, 'db'));
}

/** Copies synchronously, because for the 600 files `cp` of node:fs/promises would take ten times as long. */
function copyFolder(from: string, to: string): void {
  cpSync(from, to, { recursive: true });
}

async function createDatabase(dataDir: string): Promise<void> {
  const database = await openEmbeddedDatabase({ dataDir });
  await migrate(database);
  await database.query('checkpoint');
  await database.close();
}

/**
 * Hashes everything that the template depends on, i.e. the code that creates and migrates a database, the migrations,
 * and PGlite itself.
 */
async function hashOfSchema(): Promise<string> {
  const code = fileURLToPath(new URL('../../src/db', import.meta.url));
  const names = (await readdir(code, { recursive: true })).filter((name) => /\.(?:ts|sql)$/.test(name)).sort();
  // The file name of the empty database contains a hash of PGlite.
  const hash = createHash('sha256').update((await emptyDatabaseFile()).pathname);
  for (const name of names) hash.update(`\0${name}\0`).update(await readFile(join(code, name)));
  return hash.digest('hex').slice(0, 16);
}

/**
 * Replaces older templates in the cache. Several runs may do this at the same time, so a template only gets its final
 * name when it's complete.
 */
async function keep(folder: string, cached: string): Promise<void> {
  await mkdir(cacheFolder, { recursive: true });
  const old = (await readdir(cacheFolder)).filter((name) => !name.startsWith(unfinished));
  for (const name of old) await rm(join(cacheFolder, name), { recursive: true, force: true });
  const copy = await mkdtemp(join(cacheFolder, unfinished));
  copyFolder(folder, join(copy, 'db'));
  await rename(join(copy, 'db'), cached).catch(() => undefined);
  await rm(copy, { recursive: true, force: true });
}
