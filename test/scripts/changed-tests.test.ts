import { expect, test } from '@jest/globals';
import { rankTests, takeWithin } from '../../scripts/changed-tests.js';

const files = new Map([
  ['src/main.ts', "import { runService } from './service/run.ts';"],
  ['src/service/run.ts', "import { search } from '../memory/search.ts';"],
  ['src/memory/search.ts', "import type { Query } from './query.ts';\nconst rows = new URL('./synonyms.sql', import.meta.url);"],
  ['src/memory/query.ts', ''],
  ['src/keys/keyring.ts', ''],
  ['test/support/processes.ts', "spawn(process.execPath, [join(root, 'src', 'main.ts')]);"],
  ['test/memory/query.test.ts', "import { search } from '../../src/memory/search.ts';"],
  ['test/service/search.test.ts', "import { search } from '../../src/memory/search.ts';"],
  ['test/service/start.test.ts', "import { start } from '../support/processes.ts';"],
  ['test/keys/keyring.test.ts', "import '../../src/keys/keyring.ts';"],
]);

test('selects tests that import a changed file directly or indirectly', () => {
  expect(rankTests({ files, changed: ['src/memory/query.ts'] })).toEqual([
    'test/memory/query.test.ts',
    'test/service/search.test.ts',
    'test/service/start.test.ts',
  ]);
  expect(rankTests({ files, changed: ['src/keys/keyring.ts'] })).toEqual(['test/keys/keyring.test.ts']);
});

test('runs a changed test first', () => {
  const changed = ['src/memory/query.ts', 'test/keys/keyring.test.ts', 'unknown.yaml'];
  expect(rankTests({ files, changed })[0]).toBe('test/keys/keyring.test.ts');
  expect(rankTests({ files, changed: ['src/gone.ts', 'unknown.yaml'] })).toEqual([]);
});

test('selects the tests of modules that mention a changed file', () => {
  expect(rankTests({ files, changed: ['src/memory/synonyms.sql'] })).toContain('test/memory/query.test.ts');
});

test('picks as many tests as fit into the given time', () => {
  const durations = { a: 50, b: 40, c: 20 };
  expect(takeWithin(80, ['a', 'b', 'c', 'd'], durations)).toEqual(['a', 'c', 'd']);
  expect(takeWithin(10, ['a', 'b'], durations)).toEqual(['a']);
});
