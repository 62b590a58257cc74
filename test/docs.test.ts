import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { replaceSettings, replaceVendors } from '../scripts/write-configuration.js';
import { replaceTables } from '../scripts/write-module-table.js';
import { describeFile } from '../src/config/file-schema.ts';
import { loadConfig } from '../src/config/load.ts';
import { variables } from '../src/config/variables.ts';
import { knownVendors } from '../src/config/vendors/known-vendors.ts';
import { DIRECTIONS, RESTRICTED_IMPORTS, SUBMODULES } from './support/architecture.ts';
import { findCommandMistakes, findUnmarkedCommands, readCommandPages } from './support/documented-commands.ts';

const root = join(import.meta.dirname, '..');
const pages = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md'];
const folders = ['docs', 'src', 'workflows', 'activities', 'scripts', 'test'];

interface TextFile {
  readonly path: string;
  readonly text: string;
}

function readFiles(): TextFile[] {
  const paths = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name).replaceAll('\\', '/')),
  );
  return [...pages, ...paths.filter((path) => /\.(?:md|ts|js)$/.test(path))].map((path) => ({
    path,
    text: readFileSync(join(root, path), 'utf8'),
  }));
}

test('every link in the documentation leads to an existing file and anchor', () => {
  expect(findBrokenReferences(readFiles(), (path) => existsSync(join(root, path)))).toEqual([]);
});

test('the table in README.md lists every page of docs/', () => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const index = readme.slice(readme.indexOf('## Documentation'));
  const names = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'));
  expect(names.filter((name) => !index.includes(`](docs/${name})`))).toEqual([]);
});

describe('commands in code blocks', () => {
  test('each documented command is run by a test or exempted with a reason', () => {
    expect(readCommandPages().flatMap(findUnmarkedCommands)).toEqual([]);
  });

  test('documented commands use names and options that exist', async () => {
    expect((await Promise.all(readCommandPages().map(findCommandMistakes))).flat()).toEqual([]);
  });

  test('reports mistakes in documented commands', async () => {
    const text = [
      '```\ncurl x\n```',
      '```sh\ncurl x\n```',
      '<!-- not run: a reason -->\n```sh\nnpm run nothing\ngateway keys list --rpm 5\n```',
      '`gateway key list` and `gateway codec-server --ports 1`, `gateway keys rotate`',
    ].join('\n');
    const page = { path: 'docs/page.md', text };
    expect(findUnmarkedCommands(page)).toEqual([
      'docs/page.md:1: tag a block of commands with sh',
      'docs/page.md:5: say before the block why it is not run: <!-- not run: ... -->',
    ]);
    expect(await findCommandMistakes(page)).toEqual([
      'docs/page.md:9: npm run nothing: package.json has no script nothing',
      "docs/page.md:9: gateway keys list --rpm 5: gateway: unknown option '--rpm'",
      "docs/page.md:12: gateway key list: gateway: unknown command 'key'",
      "docs/page.md:12: gateway codec-server --ports 1: Unknown option '--ports'",
    ]);
  });
});

test('the module table in CONTRIBUTING.md is up to date (node scripts/write-module-table.js)', () => {
  const text = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8');
  expect(text).toBe(replaceTables(text, { DIRECTIONS, SUBMODULES, RESTRICTED_IMPORTS }));
});

describe('docs/configuration.md', () => {
  const page = readFileSync(join(root, 'docs/configuration.md'), 'utf8');
  const environment = { TEMPORAL_ADDRESS: 'temporal:7233', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318' };
  const provider = { base_url: 'https://vendor.example/v1', dialect: 'chat', speech_shape: 'voice' };
  const load = (env: Record<string, string>, settings: object, row: object = {}) =>
    loadConfig({
      env: { ...environment, ...env },
      fileText: JSON.stringify({ ...settings, providers: { vendor: { ...provider, ...row } } }),
      fileName: 'gateway.yaml',
    });

  test('docs/configuration.md matches the output of node scripts/write-configuration.js', () => {
    expect(page).toBe(replaceSettings(page, { variables, file: describeFile() }));
    const vendors = readFileSync(join(root, 'docs/vendors.md'), 'utf8');
    expect(vendors).toBe(replaceVendors(vendors, knownVendors));
  });

  test('docs/configuration.md documents the actual defaults', () => {
    const expected = load({}, {});
    const ofVariables = [...page.matchAll(/^\| <a id="\w+"><\/a>`(\w+)` \| \w+ \| `([^`]+)` \|/gm)];
    for (const [, name = '', value = ''] of ofVariables) expect([name, load({ [name]: value }, {})]).toEqual([name, expected]);
    const [, top = '', row = ''] = page.split(/^### .*$/m);
    const topLevel = literalDefaults(top);
    for (const [path, value] of topLevel) expect([path, load({}, nest(path, value))]).toEqual([path, expected]);
    const ofProviders = literalDefaults(row);
    for (const [path, value] of ofProviders) expect([path, load({}, {}, nest(path, value))]).toEqual([path, expected]);
    expect([ofVariables.length, topLevel.length, ofProviders.length].every((count) => count >= 6)).toBe(true);
  });

  test('docs/configuration.md describes every setting', () => {
    const withoutOne = { properties: { fresh: { type: 'string' } } };
    expect(() => replaceSettings(page, { variables, file: withoutOne })).toThrow('gateway.yaml: fresh has no description');
  });
});

/** Returns the paths of settings with a single default value, with that value. */
function literalDefaults(table: string): [string, unknown][] {
  return [...table.matchAll(/^\| `([\w.]+)` \| [^|]+ \| `([^`]+)` \|/gm)].map(([, path = '', text = '']) => [
    path,
    /^(?:\d+|true|false)$/.test(text) ? JSON.parse(text) : text,
  ]);
}

function nest(path: string, value: unknown): object {
  return path.split('.').reduceRight<object>((inner, name, index, all) => ({ [name]: index === all.length - 1 ? value : inner }), {});
}

test('the API reference covers every route, header, error code and member', () => {
  const page = readFileSync(join(root, 'docs/api/reference.md'), 'utf8');
  const document = JSON.parse(readFileSync(join(root, 'docs/api/openapi.json'), 'utf8'));
  const codes = [...readFileSync(join(root, 'src/core/errors.ts'), 'utf8').matchAll(/^ {2}(\w+): \{/gm)].map((match) => match[1] ?? '');
  expect(codes).toContain('no_route');
  expect(Object.keys(document.paths).filter((path) => !page.includes(path))).toEqual([]);
  const parameters = Object.values<{ readonly name: string; readonly in: string }>(document.components.parameters);
  const requestHeaders = parameters.filter((parameter) => parameter.in === 'header').map(({ name }) => name);
  expect(requestHeaders).toContain('x-gateway-source');
  const headers = [...requestHeaders, ...Object.keys(document.components.headers)];
  expect(headers.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  expect(codes.filter((code) => !page.includes(`\`${code}\``))).toEqual([]);
  const terms = new Set(page.match(/\w+/g));
  // This is the vendor's own member, which the gateway passes on.
  expect([...membersOf(document.components.schemas)].filter((name) => name !== 'choices' && !terms.has(name))).toEqual([]);
});

/** Returns the names of all properties in JSON schemas. */
function membersOf(schema: unknown): Set<string> {
  if (typeof schema !== 'object' || schema === null) return new Set();
  const own = 'properties' in schema && typeof schema.properties === 'object' ? Object.keys(schema.properties ?? {}) : [];
  return new Set([...own, ...Object.values(schema).flatMap((child) => [...membersOf(child)])]);
}

describe('broken references', () => {
  const page = { path: 'docs/page.md', text: '# A page: `with` code\n<a id="named"></a>\n## Twice\n## Twice\n' };
  const exists = (path: string): boolean => ['docs', 'docs/page.md', 'src/a.ts'].includes(path);
  const check = (path: string, text: string): string[] => findBrokenReferences([page, { path, text }], exists);

  test.each([
    ['a link to a missing file', 'docs/other.md', '[x](missing.md)', 'docs/other.md:1: missing.md'],
    ['a link to a missing anchor', 'docs/other.md', '\n[x](page.md#none)', 'docs/other.md:2: page.md#none'],
    ['an anchor that the page itself lacks', 'docs/other.md', '[x](#none)', 'docs/other.md:1: #none'],
    ['a path of code that does not exist', 'docs/other.md', '`src/missing.ts`', 'docs/other.md:1: src/missing.ts'],
    ['a page cited in a comment', 'src/a.ts', '// See docs/missing.md.', 'src/a.ts:1: docs/missing.md'],
    ['an anchor cited in a comment', 'src/a.ts', '// See docs/page.md#none.', 'src/a.ts:1: docs/page.md#none'],
  ])('reports %s in the documentation', (_case, path, text, expected) => {
    expect(check(path, text)).toEqual([expected]);
  });

  test('accepts valid links and references in the documentation', () => {
    const links = ['page.md', 'page.md#named', 'page.md#a-page-with-code', '../docs/page.md#twice-1', 'https://host/missing.md'];
    expect(check('docs/other.md', `${links.map((link) => `[x](${link})`).join('\n')}\n\`src/a.ts\`\n`)).toEqual([]);
    expect(check('src/a.ts', '// See docs/page.md#named and docs/page.md.')).toEqual([]);
  });
});

/**
 * Returns `path:line: reference` for every reference that doesn't resolve: links of a page, code paths in a page, and
 * pages cited in code.
 */
function findBrokenReferences(files: readonly TextFile[], exists: (path: string) => boolean): string[] {
  const anchors = new Map(files.filter(({ path }) => path.endsWith('.md')).map(({ path, text }) => [path, anchorsIn(text)]));
  const resolves = (target: string): boolean => {
    const [path = '', anchor] = target.split('#', 2);
    return exists(path.replace(/\/$/, '')) && (anchor === undefined || !anchors.has(path) || anchors.get(path)?.has(anchor) === true);
  };
  return files.flatMap(({ path, text }) =>
    referencesIn(path, text)
      .filter(({ target }) => !resolves(target))
      .map(({ written, index }) => `${path}:${text.slice(0, index).split('\n').length}: ${written}`),
  );
}

interface Reference {
  readonly written: string;
  /** The path from the root, including the anchor if there is one. */
  readonly target: string;
  readonly index: number;
}

function referencesIn(path: string, text: string): Reference[] {
  if (!path.endsWith('.md')) {
    // The tests in this file cite pages that do not exist.
    if (path === 'test/docs.test.ts') return [];
    return matchesOf(text, /\bdocs\/[\w./-]+\.(?:md|json)(?:#[\w-]+)?/g).map((match) => ({ ...match, target: match.written }));
  }
  const links = matchesOf(text, /(?<=\]\()(?!https?:|mailto:)[^)\s]+(?=\))/g).map((match) => ({
    ...match,
    target: match.written.startsWith('#') ? `${path}${match.written}` : normalize(join(dirname(path), match.written)),
  }));
  const code = matchesOf(text, /(?<=`)(?:src|workflows|activities|scripts|test|docs)\/[\w./-]+\w\/?(?=`)/g);
  return [...links, ...code.map((match) => ({ ...match, target: match.written }))];
}

function matchesOf(text: string, pattern: RegExp): { written: string; index: number }[] {
  return [...text.matchAll(pattern)].map((match) => ({ written: match[0], index: match.index }));
}

/** Returns the ids that GitHub derives from headings, and explicit ones. */
function anchorsIn(text: string): Set<string> {
  const anchors = new Set([...text.matchAll(/<a id="([^"]+)">/g)].map((match) => match[1] ?? ''));
  const counts = new Map<string, number>();
  for (const [, heading = ''] of text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/^#{1,6} +(.+)$/gm)) {
    const slug = heading
      .trim()
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-');
    const count = counts.get(slug) ?? 0;
    anchors.add(count === 0 ? slug : `${slug}-${count}`);
    counts.set(slug, count + 1);
  }
  return anchors;
}
