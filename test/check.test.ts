/** Makes `npm run check` part of `npm test`. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';

const root = join(import.meta.dirname, '..');
/** With the state of the last run, tsc only checks files that have changed and those that depend on them. */
const keepState = ['--incremental', '--tsBuildInfoFile', 'node_modules/.cache/model-gateway/types.tsbuildinfo'];
/** knip then only parses the files that have changed. */
const keepParsed = ['--cache', '--cache-location', 'node_modules/.cache/model-gateway/knip'];

test.each([
  ['types', 'typescript/bin/tsc', ['--noEmit', '--singleThreaded', ...keepState]],
  ['lint and format', '@biomejs/biome/bin/biome', ['check', '--error-on-warnings', '.']],
  ['description of the API', '@stoplight/spectral-cli/dist/index.js', ['lint', '--quiet', '--fail-severity=warn', 'docs/api/openapi.json']],
  ['unused files, exports and dependencies', 'knip/bin/knip.js', ['--no-config-hints', ...keepParsed]],
])('npm run check passes: %s', (_title, program, args) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'node_modules', program), ...args], {
    cwd: root,
    encoding: 'utf8',
    // tsc is written in Go, whose garbage collections would take a fifth of its CPU time.
    env: { ...process.env, GOGC: '400' },
  });
  // Jest prints their output as the difference.
  expect(status === 0 ? '' : `${stdout}${stderr}`).toBe('');
});
