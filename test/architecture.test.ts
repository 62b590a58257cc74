import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { ABOVE_APP, DIRECTIONS, DOORS, findViolations, readImports, type SourceFile } from './support/architecture.ts';

const root = join(import.meta.dirname, '..');

function readHouse(): SourceFile[] {
  return ['src', 'workflows', 'activities'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => join(folder, name).replaceAll('\\', '/'))
      .filter((path) => path.endsWith('.ts'))
      .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') })),
  );
}

test('imports go down the levels, and every door is used only where it is allowed', () => {
  expect(findViolations(readHouse())).toEqual([]);
});

test('migrations are numbered one by one, also where two changes come at the same time', () => {
  const names = readdirSync(join(root, 'src/db/migrations')).filter((name) => name.endsWith('.sql'));
  expect(names.toSorted().map((name) => Number(name.slice(0, 4)))).toEqual(names.map((_, index) => index + 1));
});

test('the direction table has no way up: following it from any room never comes back', () => {
  const below = (room: string): readonly string[] => {
    const allowed = DIRECTIONS[room];
    return allowed === 'everything'
      ? Object.keys(DIRECTIONS).filter((name) => name !== 'app' && !ABOVE_APP.includes(name))
      : (allowed ?? []);
  };
  const reach = (room: string, trail: readonly string[]): void => {
    expect(trail).not.toContain(room);
    for (const next of below(room)) reach(next, [...trail, room]);
  };
  for (const room of Object.keys(DIRECTIONS)) reach(room, []);
});

describe('the rules find what they are for', () => {
  const planted: [rule: string, files: SourceFile[], found: string][] = [
    ['an arrow up', [file('src/core/cost.ts', "import { find } from '../keys/keyring.ts';")], 'core may not import keys'],
    ['an arrow sideways', [file('src/keys/keyring.ts', "import { get } from '../projects/projects.ts';")], 'keys may not import projects'],
    ['an arrow of types', [file('src/db/pool.ts', "import type { Call } from '../usage/store.ts';")], 'db may not import usage'],
    ['an arrow by export', [file('src/db/pool.ts', "export { store } from '../usage/store.ts';")], 'db may not import usage'],
    ['an arrow by import()', [file('src/db/pool.ts', "const usage = await import('../usage/store.ts');")], 'db may not import usage'],
    [
      'an arrow of several lines',
      [file('src/db/pool.ts', "import {\n  one, // first\n  two,\n} from '../usage/store.ts';")],
      'db may not import usage',
    ],
    ['an arrow up into app', [file('src/http/server.ts', "import { build } from '../app.ts';")], 'http may not import app'],
    [
      'more of the workflows than their contract',
      [file('src/jobs/client/temporal.ts', "import '../../workflows/idle.ts';")],
      'jobs may not import workflows',
    ],
    ['a room that is not in the table', [file('src/extras/a.ts', "import { b } from '../core/b.ts';")], 'no room "extras"'],
    ['an import out of the house', [file('src/core/a.ts', "import { b } from '../../test/b.ts';")], 'outside of the house'],
    [
      'a circle of files',
      [
        file('src/core/a.ts', "import { b } from './b.ts';"),
        file('src/core/b.ts', "import { c } from './c.ts';"),
        file('src/core/c.ts', "import { a } from './a.ts';"),
      ],
      'file cycle: src/core/a.ts -> src/core/b.ts -> src/core/c.ts -> src/core/a.ts',
    ],
    [
      'an activity in a workflow',
      [file('workflows/idle.ts', "import { read } from '../activities/read.ts';")],
      'workflows may not import activities',
    ],
    [
      'a Node module in a workflow',
      [file('workflows/idle.ts', "import { readFile } from 'node:fs/promises';")],
      'a workflow may import only',
    ],
    [
      'an import in the contract',
      [file('workflows/contract.ts', "import { sleep } from '@temporalio/workflow';")],
      'a workflow may import only',
    ],
    ['a workflow in a workflow', [file('workflows/idle.ts', "import { batch } from './batch.ts';")], 'a workflow may import only'],
    ['a file that is too long', [file('src/core/a.ts', 'const a = 1;\n'.repeat(401))], '401 lines'],
    ['a drawer', [file('src/core/string-utils.ts', '')], 'no drawers'],
    ['a drawer for types', [file('src/keys/types.ts', '')], 'no drawers'],
    ...DOORS.flatMap(({ name, packages, pattern }): [string, SourceFile[], string][] => [
      ...(packages ?? []).map((wanted): [string, SourceFile[], string] => [
        `types of ${wanted}`,
        [file('src/routing/plan.ts', `import type { A } from '${wanted.endsWith('/') ? `${wanted}a` : wanted}';`)],
        `${name} may be used only in`,
      ]),
      ...(pattern === undefined
        ? []
        : [[name, [file('src/routing/plan.ts', `const a = ${name};`)], `${name} may be used only in`] as [string, SourceFile[], string]]),
    ]),
  ];

  test.each(planted)('%s', (_rule, files, found) => {
    expect(findViolations(files)).toEqual([expect.stringContaining(found)]);
  });

  test('and nothing in comments, strings, allowed places and outside of the house', () => {
    const files = [
      file(
        'src/core/a.ts',
        "// process.env is not for here\n/* import { b } from '../keys/b.ts'; */\nconst text = 'process.env and Date.now';",
      ),
      file('src/config/environment.ts', 'export const port = process.env.PORT;'),
      file('src/http/server.ts', "import express from 'express';\nimport { find } from '../keys/keyring.ts';"),
      file('src/jobs/outbox/dispatcher.ts', "import type { Names } from '../../workflows/contract.ts';"),
      file('workflows/index.ts', "export { idle } from './idle.ts';"),
      file('src/db/value-types.ts', ''),
      file('src/app.ts', "import { find } from './keys/keyring.ts';\nimport { create } from '../activities/create.ts';"),
      file('test/a.test.ts', "import pg from 'pg';"),
    ];
    expect(findViolations(files)).toEqual([]);
  });
});

test('imports are read in every form, and not out of comments', () => {
  const text = `import one, { type Two } from './one.ts';
import './side-effect.ts';
export * from "./star.ts"; export type { Three } from './three.ts';
import type Four from 'four'; // import five from 'five';
const six = await import('./six.ts'), address = 'https://host/path';
import { seven } from './seven.ts';
/* import eight from 'eight' */`;
  expect(readImports(text).sort()).toEqual(['./one.ts', './seven.ts', './side-effect.ts', './six.ts', './star.ts', './three.ts', 'four']);
});

function file(path: string, text: string): SourceFile {
  return { path, text };
}
