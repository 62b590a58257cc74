/**
 * Tests that we don't run the install scripts of packages. Some of them report the installation to their vendor, and a
 * compromised release could run its own code.
 */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { findNpm } from '../../scripts/npm.js';

/** For each package with an install script, the reason why it works without the script. */
const knownScripts: Readonly<Record<string, string>> = {
  '@parcel/watcher': 'compiles itself where no prebuilt binary exists; Jest uses it with --watch only',
  '@scarf/scarf': 'reports the installation to its vendor; Spectral depends on it and never calls it',
  '@swc/core': 'installs a fallback where no prebuilt binary exists; Temporal supports the same platforms as the binaries',
  protobufjs: 'warns about version ranges of packages that depend on it',
};

const root = new URL('../../', import.meta.url);
const pathOf = (name: string): string => new URL(name, root).pathname;

test('knows every package that has an install script', async () => {
  const { packages } = JSON.parse(await readFile(pathOf('package-lock.json'), 'utf8')) as {
    packages: Record<string, { hasInstallScript?: boolean }>;
  };
  const found = Object.entries(packages)
    .filter(([, { hasInstallScript }]) => hasInstallScript === true)
    .map(([path]) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length));
  expect([...new Set(found)].sort()).toEqual(Object.keys(knownScripts).sort());
});

test("doesn't run install scripts of packages in a clone", async () => {
  const clone = await mkdtemp(join(tmpdir(), 'gateway-clone-'));
  try {
    await mkdir(join(clone, 'dependency'));
    const scripts = { postinstall: `node -e "require('node:fs').writeFileSync('has-run', '')"` };
    await writeFile(join(clone, 'dependency/package.json'), JSON.stringify({ name: 'dependency', version: '1.0.0', scripts }));
    await writeFile(join(clone, 'package.json'), JSON.stringify({ dependencies: { dependency: 'file:dependency' } }));
    await copyFile(pathOf('.npmrc'), join(clone, '.npmrc'));
    const { command, leading } = findNpm(process.env['npm_execpath'], process.platform);
    const npm = (...args: string[]) => promisify(execFile)(command, [...leading, ...args, '--offline', '--no-audit'], { cwd: clone });
    await npm('install', '--package-lock-only');
    await npm('ci');
    expect(await readdir(join(clone, 'node_modules'))).toContain('dependency');
    expect(await readdir(join(clone, 'dependency'))).toEqual(['package.json']);
  } finally {
    await rm(clone, { recursive: true, force: true });
  }
});
