import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import {
  ABOVE_APP,
  DIRECTIONS,
  findViolations,
  RESTRICTED_IMPORTS,
  readImports,
  type SourceFile,
  SUBMODULES,
} from './support/architecture.ts';

const root = join(import.meta.dirname, '..');

function readSources(): SourceFile[] {
  return ['src', 'workflows', 'activities'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => join(folder, name).replaceAll('\\', '/'))
      .filter((path) => path.endsWith('.ts'))
      .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') })),
  );
}

const listFiles = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(root.length + 1));

test('modules import only modules that the architecture allows', () => {
  expect(findViolations(readSources())).toEqual([]);
});

test('build and deployment files refer only to source files that exist', () => {
  const files = [
    'Dockerfile',
    'docker-compose.yml',
    'package.json',
    'tsconfig.json',
    ...listFiles('.github'),
    ...listFiles('.ci'),
    ...listFiles('deploy'),
  ];
  const named = files.flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(/(?:src|workflows|activities|scripts)\/[\w./-]+\.(?:ts|js)\b/g)].map(
      ([path]) => path,
    ),
  );
  expect(named).toEqual(expect.arrayContaining(['src/main.ts', 'src/temporal/worker/workflow-bundle.ts']));
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

test("doesn't import Temporal, the console or cloud SDKs at startup", () => {
  const sources = new Map(readSources().map(({ path, text }) => [path, text]));
  const loaded = new Set<string>();
  const load = (path: string): void => {
    if (loaded.has(path)) return;
    loaded.add(path);
    for (const [, name = ''] of (sources.get(path) ?? '').matchAll(/^(?:import|export) (?!type\b)[^;]*?from '([^']+)';/gm)) {
      load(name.startsWith('.') ? posix.join(posix.dirname(path), name) : name);
    }
  };
  for (const entry of ['src/main.ts', 'src/service/service.ts', 'src/app/app.ts', 'src/app/api.ts']) load(entry);
  const onDemand =
    /^(?:(?:@temporalio|@electric-sql|@modelcontextprotocol|@aws-sdk|@azure|@smithy|src\/console|src\/demo-vendor|src\/mcp)\/|google-auth-library$)/;
  expect([...loaded].filter((path) => onDemand.test(path))).toEqual([]);
  expect(loaded).toContain('src/vendors/http-client.ts');
});

test('numbers migrations consecutively', () => {
  const names = readdirSync(join(root, 'src/db/migrations')).filter((name) => name.endsWith('.sql'));
  expect(names.toSorted().map((name) => Number(name.slice(0, 4)))).toEqual(names.map((_, index) => index + 1));
});

test('the table of allowed imports between modules has no cycles', () => {
  const below = (module: string): readonly string[] => {
    const allowed = DIRECTIONS[module];
    return allowed === 'everything'
      ? Object.keys(DIRECTIONS).filter((name) => name !== 'app' && !ABOVE_APP.includes(name))
      : (allowed ?? []);
  };
  const reach = (module: string, trail: readonly string[]): void => {
    expect(trail).not.toContain(module);
    for (const next of below(module)) reach(next, [...trail, module]);
  };
  for (const module of Object.keys(DIRECTIONS)) reach(module, []);
});

test('the tables of allowed imports within a module have no cycles', () => {
  for (const [folder, submodules] of Object.entries(SUBMODULES)) {
    const seen: string[] = [];
    for (const [submodule, allowed] of Object.entries(submodules)) {
      expect(existsSync(join(root, folder, submodule))).toBe(true);
      // The order matters, because a submodule may only import those listed before it.
      expect(seen).toEqual(expect.arrayContaining([...allowed]));
      seen.push(submodule);
    }
  }
});

describe('imports that violate the architecture', () => {
  const planted: [rule: string, files: SourceFile[], found: string][] = [
    ['an upward import', [file('src/core/cost.ts', "import { find } from '../keys/keyring.ts';")], 'core may not import keys'],
    ['a sideways import', [file('src/keys/keyring.ts', "import { get } from '../projects/projects.ts';")], 'keys may not import projects'],
    ['a type import', [file('src/db/pool.ts', "import type { Call } from '../usage/store.ts';")], 'db may not import usage'],
    ['a re-export', [file('src/db/pool.ts', "export { store } from '../usage/store.ts';")], 'db may not import usage'],
    ['a dynamic import', [file('src/db/pool.ts', "const usage = await import('../usage/store.ts');")], 'db may not import usage'],
    [
      'an import over several lines',
      [file('src/db/pool.ts', "import {\n  one, // first\n  two,\n} from '../usage/store.ts';")],
      'db may not import usage',
    ],
    ['an upward import of app', [file('src/http/server.ts', "import { build } from '../app.ts';")], 'http may not import app'],
    [
      'an import of a workflow other than the contract',
      [file('src/temporal/client/temporal.ts', "import '../../workflows/idle.ts';")],
      'temporal may not import workflows',
    ],
    ['a module that is not in the table', [file('src/extras/a.ts', "import { b } from '../core/b.ts';")], 'no module "extras"'],
    [
      'an import from outside the source roots',
      [file('src/core/a.ts', "import { b } from '../../test/b.ts';")],
      'outside the source roots',
    ],
    [
      'a cycle of files',
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
    [
      'an upward import within a module',
      [file('src/memory/text/lexemes.ts', "import { find } from '../search/search.ts';")],
      'src/memory/text may not import src/memory/search/search.ts',
    ],
    [
      'a submodule that imports a file above it',
      [file('src/temporal/outbox/dispatcher.ts', "import { start } from '../durable.ts';")],
      'src/temporal/outbox may not import src/temporal/durable.ts',
    ],
    [
      'a submodule that is not in the table',
      [file('src/memory/extras/a.ts', "import { b } from '../text/b.ts';")],
      'no submodule "extras" of src/memory',
    ],
    ['a file that is too long', [file('src/core/a.ts', 'const a = 1;\n'.repeat(401))], '401 lines'],
    ['a catch-all file', [file('src/core/string-utils.ts', '')], 'may not be called utils'],
    ['a catch-all file for types', [file('src/keys/types.ts', '')], 'may not be called utils'],
    ...RESTRICTED_IMPORTS.flatMap(({ name, packages, pattern }): [string, SourceFile[], string][] => [
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

  test.each(planted)('reports %s', (_rule, files, found) => {
    expect(findViolations(files)).toEqual([expect.stringContaining(found)]);
  });

  test('the import check ignores imports in comments and strings', () => {
    const files = [
      file(
        'src/core/a.ts',
        "// process.env in a comment\n/* import { b } from '../keys/b.ts'; */\nconst text = 'process.env and Date.now';",
      ),
      file('src/config/environment.ts', 'export const port = process.env.PORT;'),
      file('src/http/server.ts', "import express from 'express';\nimport { find } from '../keys/keyring.ts';"),
      file('src/temporal/outbox/dispatcher.ts', "import type { Names } from '../../../workflows/contract.ts';"),
      file('workflows/index.ts', "export { idle } from './idle.ts';"),
      file('src/db/value-types.ts', ''),
      file('src/app.ts', "import { find } from './keys/keyring.ts';\nimport { create } from '../activities/create.ts';"),
      file('test/a.test.ts', "import pg from 'pg';"),
    ];
    expect(findViolations(files)).toEqual([]);
  });
});

test('the import check finds static, dynamic and type-only imports', () => {
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
