import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { acquireFileLock } from '../../src/core/file-lock.ts';

const module = new URL('../../src/core/file-lock.ts', import.meta.url).href;
let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gateway-lock-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test('allows only one lock holder at a time within a process', async () => {
  const file = join(folder, 'one', 'deep', 'owner.lock');
  const first = await acquireFileLock(file);
  expect(first).not.toBeNull();
  expect(await acquireFileLock(file)).toBeNull();
  first?.release();
  first?.release();
  const second = await acquireFileLock(file);
  expect(second).not.toBeNull();
  second?.release();
});

test('only one of many concurrent attempts acquires the file lock', async () => {
  const answers = await Promise.all(Array.from({ length: 20 }, () => acquireFileLock(join(folder, 'many.lock'))));
  const holders = answers.filter((lock) => lock !== null);
  expect(holders).toHaveLength(1);
  expect(await acquireFileLock(join(folder, 'many.lock'))).toBeNull();
  holders[0]?.release();
});

test('creates the lock file and its folder with owner-only permissions', async () => {
  const lock = await acquireFileLock(join(folder, 'private', 'owner.lock'));
  expect((await stat(join(folder, 'private'))).mode & 0o777).toBe(0o700);
  expect((await stat(join(folder, 'private', 'owner.lock'))).mode & 0o777).toBe(0o600);
  expect(await readdir(join(folder, 'private'))).toEqual(['owner.lock']);
  lock?.release();
});

test("other processes can't acquire the file lock until its holder dies", async () => {
  const file = join(folder, 'other.lock');
  const script = `
    const { acquireFileLock } = await import(${JSON.stringify(module)});
    globalThis.lock = await acquireFileLock(${JSON.stringify(file)});
    console.log(globalThis.lock ? 'held' : 'refused');
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [said] = await once(child.stdout, 'data');
  expect(String(said)).toBe('held\n');
  expect(await acquireFileLock(file)).toBeNull();
  child.kill('SIGKILL');
  await once(child, 'exit');
  const lock = await acquireFileLock(file);
  expect(lock).not.toBeNull();
  lock?.release();
});

test("names the lock file in the error if it can't be created", async () => {
  const file = join(folder, 'a file');
  await writeFile(file, '');
  await expect(acquireFileLock(join(file, 'owner.lock'))).rejects.toThrow(`cannot lock ${join(file, 'owner.lock')}`);
});
