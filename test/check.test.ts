/** `npm run check`, so that `npm test` proves it too. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';

const root = join(import.meta.dirname, '..');

test.each([
  ['the types hold', 'typescript/bin/tsc', ['--noEmit']],
  ['lint and format hold', '@biomejs/biome/bin/biome', ['check', '--error-on-warnings', '.']],
  ['no file, export or dependency is unused', 'knip/bin/knip.js', ['--no-config-hints']],
])('%s', (_title, program, args) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'node_modules', program), ...args], {
    cwd: root,
    encoding: 'utf8',
  });
  // What they print is what a developer needs to see: it becomes the difference that jest shows.
  expect(status === 0 ? '' : `${stdout}${stderr}`).toBe('');
});
