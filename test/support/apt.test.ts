import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { apt } from './apt.ts';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gateway-apt-'));
  Object.assign(process.env, { PATH: `${folder}:${process.env.PATH}`, XDG_CACHE_HOME: folder });
});
afterEach(() => rm(folder, { recursive: true }));

/** Puts a program on the PATH that locks the lists of packages like `apt-get update` does. */
async function fakeAptGet(): Promise<void> {
  const refuse = "echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)' >&2; exit 100";
  const commands = `cd '${folder}'
if [ -e other ]; then rm other; ${refuse}; fi
mkdir lists-lock 2> /dev/null || { echo refused >> log; ${refuse}; }
sleep 0.1
echo "$1" >> log
rmdir lists-lock`;
  await writeFile(join(folder, 'apt-get'), `#!/bin/sh\n${commands}\n`);
  await chmod(join(folder, 'apt-get'), 0o755);
}

test('runs only one apt-get at a time', async () => {
  await fakeAptGet();
  await Promise.all(['update', 'update', 'download'].map((command) => apt([command])));
  const log = await readFile(join(folder, 'log'), 'utf8');
  expect(log.trim().split('\n').toSorted()).toEqual(['download', 'update', 'update']);
});

test('waits while another program holds the lock of apt-get', async () => {
  await fakeAptGet();
  await writeFile(join(folder, 'other'), '');
  await apt(['update']);
  expect(await readFile(join(folder, 'log'), 'utf8')).toBe('update\n');
});

test('reports any other error from apt-get', async () => {
  await writeFile(join(folder, 'apt-get'), "#!/bin/sh\necho 'E: Unable to locate package' >&2; exit 100\n");
  await chmod(join(folder, 'apt-get'), 0o755);
  await expect(apt(['install', 'nothing'])).rejects.toThrow('E: Unable to locate package');
});
