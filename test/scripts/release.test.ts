import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { root } from '../support/gateway-process.ts';

const version = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version.replace('-dev', '');
const files = [
  'package.json',
  'package-lock.json',
  'Dockerfile',
  'docker-compose.yml',
  'CHANGELOG.md',
  'docs/kubernetes.md',
  'docs/deploying.md',
];
const identity = { GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@a.example', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@a.example' };

let clone: string;

const read = (file: string): string => readFileSync(join(clone, file), 'utf8');
const git = (...args: string[]): string =>
  execFileSync('git', args, { cwd: clone, encoding: 'utf8', env: { ...process.env, ...identity } }).trim();

/** Returns the output of the command, whether it failed or not. */
function release(...args: string[]): string {
  const script = join(clone, 'scripts', 'release.js');
  const env = { ...process.env, ...identity };
  return spawnSync(process.execPath, [script, '--no-image', ...args], { cwd: clone, encoding: 'utf8', env }).stderr;
}

/** Creates a repository with the files of this clone that contain the version, between two releases. */
beforeEach(() => {
  clone = mkdtempSync(join(tmpdir(), 'gateway-release-'));
  for (const file of [...files, 'scripts', 'test/support/previous-release.ts'])
    cpSync(join(root, file), join(clone, file), { recursive: true });
  const edit = (file: string, change: (text: string) => string): void => writeFileSync(join(clone, file), change(read(file)));
  const toDev = (text: string): string =>
    text.replace(new RegExp(`("version": "|VERSION=|VERSION:-)${version}(?=["}\n])`, 'g'), `$1${version}-dev`);
  for (const file of ['package.json', 'Dockerfile', 'docker-compose.yml']) edit(file, toDev);
  edit('package-lock.json', (text) => toDev(text.slice(0, 300)) + text.slice(300));
  edit('CHANGELOG.md', () => '# Changelog\n\n## Unreleased\n\n- Something new.\n\n## 0.1.0 - 2026-11-22\n\n- First.\n');
  git('init', '--quiet', '--initial-branch', 'main');
  git('add', '--all');
  git('commit', '--quiet', '--message', 'Before');
});

afterEach(() => rmSync(clone, { recursive: true, force: true }));

test('releases a tagged commit and starts the next version', () => {
  expect(release(version, '--next', '77.0.0')).toMatch(/push --follow-tags/);
  const show = (file: string): string => git('show', `v${version}:${file}`);
  expect(JSON.parse(show('package.json')).version).toBe(version);
  expect(JSON.parse(show('package-lock.json'))).toMatchObject({ version, packages: { '': { version } } });
  expect(show('Dockerfile')).toContain(`ARG VERSION=${version}\n`);
  expect(show('docker-compose.yml')).toContain(`\${GATEWAY_VERSION:-${version}}`);
  expect(show('CHANGELOG.md')).toMatch(new RegExp(`\n## ${version} - \\d{4}-\\d\\d-\\d\\d\n\n- Something new\\.`));
  expect(show('CHANGELOG.md')).not.toContain('Unreleased');
  expect(git('log', '--format=%s', '-2').split('\n')).toEqual(['Start 77.0.0', `Release ${version}`]);
  expect(JSON.parse(read('package.json'))).toMatchObject({ version: '77.0.0-dev' });
  expect(JSON.parse(read('package-lock.json'))).toMatchObject({ version: '77.0.0-dev', packages: { '': { version: '77.0.0-dev' } } });
  expect(read('docs/kubernetes.md')).toContain('model-gateway:77.0.0');
  expect(read('CHANGELOG.md')).toMatch(new RegExp(`\n## Unreleased\n\n## ${version} - `));
  expect(read('test/support/previous-release.ts')).toContain(
    `{ version: '${version}', commit: '${git('rev-parse', `v${version}^{commit}`)}' }`,
  );
  const archived = execFileSync('tar', ['--list', '--file', join(clone, 'dist', `model-gateway-${version}.tar.gz`)], { encoding: 'utf8' });
  expect(archived).toContain(`model-gateway-${version}/package-lock.json\n`);
  // Other packages in the lock file keep their versions.
  expect(git('diff', '--stat', 'HEAD~2', '--', 'package-lock.json')).toMatch(/2 insertions\(\+\), 2 deletions\(-\)/);
});

test('refuses to release from a clone with uncommitted changes', () => {
  writeFileSync(join(clone, 'new-file'), '');
  expect(release(version)).toMatch(/uncommitted changes/);
  rmSync(join(clone, 'new-file'));
  expect(release('99.0.0')).toMatch(/it has to be 99\.0\.0-dev/);
  expect(release('one')).toMatch(/pass the version/);
  expect(release(version, '--next', version)).toMatch(/not a later version/);
  git('tag', `v${version}`);
  expect(release(version)).toMatch(/exists/);
  expect(git('log', '--format=%s')).toBe('Before');
});
