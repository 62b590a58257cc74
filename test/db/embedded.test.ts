import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { isConnectionError } from '../../src/db/connection-errors.ts';
import { DataDirError, openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { emptyDatabaseFile, unpackEmptyDatabase } from '../../src/db/empty-database.ts';

let dataDir = '';
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'gateway-embedded-'));
});
afterAll(() => rm(dataDir, { recursive: true, force: true }));

test('the embedded database locks its directory while it is open', async () => {
  const first = await openEmbeddedDatabase({ dataDir });
  await expect(openEmbeddedDatabase({ dataDir })).rejects.toThrow(/^the data directory \S+ is in use by another gateway process; [^\n]+$/);
  await first.query('create table kept as select 1 as n');
  await first.close();
  await first.close();

  const second = await openEmbeddedDatabase({ dataDir });
  expect(await second.query('select n from kept')).toEqual([{ n: 1 }]);
  expect(await second.query(`select current_setting('server_version') like '18.%' as "is18"`)).toEqual([{ is18: true }]);
  await second.close();
});

test('queries after close fail with a connection error', async () => {
  const database = await openEmbeddedDatabase({ dataDir });
  await database.close();
  const error: unknown = await database.query('select 1').catch((reason: unknown) => reason);
  expect(isConnectionError(error)).toBe(true);
});

test('keeps committed rows after the process is killed', async () => {
  const source = new URL('../../src/db/embedded.ts', import.meta.url).href;
  const script = `
    const { openEmbeddedDatabase } = await import(${JSON.stringify(source)});
    const database = await openEmbeddedDatabase({ dataDir: ${JSON.stringify(dataDir)} });
    await database.query('create table survivors as select 7 as n');
    console.log('written');
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  expect(await Promise.race([ended, new Promise((resolve) => child.stdout.once('data', (text) => resolve(String(text))))])).toBe(
    'written\n',
  );
  await expect(openEmbeddedDatabase({ dataDir })).rejects.toThrow('is in use by another gateway process');
  child.kill('SIGKILL');
  await ended;
  const database = await openEmbeddedDatabase({ dataDir });
  expect(await database.query('select n from survivors')).toEqual([{ n: 7 }]);
  await database.close();
});

test('recreates the embedded database if its creation was interrupted', async () => {
  const cut = await mkdtemp(join(tmpdir(), 'gateway-cut-short-'));
  await mkdir(join(cut, 'db', 'base'), { recursive: true });
  await writeFile(join(cut, 'db', 'PG_VERSION'), '18\n');
  await expect(openEmbeddedDatabase({ dataDir: cut })).rejects.toThrow(DataDirError);
  await expect(openEmbeddedDatabase({ dataDir: cut })).rejects.toThrow(DataDirError);

  await writeFile(join(cut, 'db', 'PG_VERSION'), '');
  await writeFile(join(cut, 'db.unfinished'), '');
  const database = await openEmbeddedDatabase({ dataDir: cut });
  await database.query('create table kept as select 1 as n');
  await database.close();
  const again = await openEmbeddedDatabase({ dataDir: cut });
  expect(await again.query('select n from kept')).toEqual([{ n: 1 }]);
  await again.close();
  await rm(cut, { recursive: true });
});

describe('the first start', () => {
  /** Returns the names of its databases and the warnings after a first start that uses `unpackEmpty`. */
  async function start(unpackEmpty: typeof unpackEmptyDatabase): Promise<{ databases: unknown[]; warnings: string[] }> {
    const folder = await mkdtemp(join(tmpdir(), 'gateway-first-start-'));
    const warnings: string[] = [];
    const logger = { warn: (_fields: object, message: string) => warnings.push(message) };
    const database = await openEmbeddedDatabase({ dataDir: folder, unpackEmpty, logger });
    await database.query('create extension vector');
    const databases = await database.query<{ name: string }>('select datname as name from pg_database order by 1');
    await database.close();
    await rm(folder, { recursive: true });
    return { databases: databases.map(({ name }) => name), warnings };
  }

  test('unpacks the prebuilt empty database for the installed PGlite version', async () => {
    // If this fails after an upgrade of PGlite, run `node scripts/write-empty-database.js`.
    expect(existsSync(await emptyDatabaseFile())).toBe(true);
    expect(await start(unpackEmptyDatabase)).toEqual({ databases: ['postgres'], warnings: [] });
  });

  test('creates a database from scratch if the prebuilt one is damaged', async () => {
    const unpackHalf = async (folder: string): Promise<boolean> => {
      await unpackEmptyDatabase(folder);
      await rm(join(folder, 'base'), { recursive: true });
      return true;
    };
    expect(await start(unpackHalf)).toEqual({
      databases: ['postgres', 'template0', 'template1'],
      warnings: ['cannot use the empty database that ships with the gateway; creating a new one'],
    });
  });
});

test('rejects a data directory from a different PostgreSQL version with a one-line error', async () => {
  const other = await mkdtemp(join(tmpdir(), 'gateway-other-major-'));
  await mkdir(join(other, 'db'));
  await writeFile(join(other, 'db', 'PG_VERSION'), '16\n');
  await expect(openEmbeddedDatabase({ dataDir: other })).rejects.toThrow(/created by PostgreSQL 16, but this version needs 18; [^\n]+$/);
  await rm(other, { recursive: true });
});

test("reports a one-line error if the data directory can't be created", async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gateway-unwritable-'));
  const file = join(folder, 'file');
  await writeFile(file, '');
  await chmod(file, 0o400);
  const opening = openEmbeddedDatabase({ dataDir: join(file, 'data') });
  await expect(opening).rejects.toThrow(DataDirError);
  await expect(opening).rejects.toThrow(/^cannot write to the data directory \S+: [^\n]+$/);
  await rm(folder, { recursive: true });
});
