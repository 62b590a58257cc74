/**
 * The language of code and documentation: plain technical English, one term per concept (docs/glossary.md), no references to documents that
 * readers do not have.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';

const root = join(import.meta.dirname, '..');
const folders = ['deploy', 'docs', 'src', 'workflows', 'activities', 'scripts', 'test'];
const pages = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'gateway.example.yaml', 'docker-compose.yml', 'Dockerfile'];
/** Generated, recorded, or immutable once applied: migrations are compared by checksum at start. */
const excluded = /^(?:docs\/api\/openapi\.json|src\/db\/migrations\/|test\/fixtures\/|test\/language\.test\.ts$)/;

const bannedTerms = [
  'whoever',
  'anew',
  'told',
  'heard',
  'stands',
  'lives',
  'ill',
  'well',
  'money',
  'words',
  'rooms?',
  'house',
  'doors?',
  'story',
  'wish(?:es)?',
  'look(?:s|ed)?',
  'by itself',
  'of its own',
  'for good',
  'beside',
  'behind',
  'as it were',
];
const outsideReferences = [
  '(?:decisions?|shapes?|lessons?|vendor facts|specification|spec|house) \\d+(?:\\.\\d+)?',
  'vendor facts',
  '(?:house|shapes|decisions|lessons|vendor-facts)\\.md',
];
const violation = new RegExp(`\\b(?:${[...bannedTerms, ...outsideReferences].join('|')})\\b`, 'gi');

interface Exception {
  readonly path: RegExp;
  readonly line: RegExp;
  readonly reason: string;
}

/** Lines that must keep a term: wire names, persisted names and quoted data. */
const exceptions: readonly Exception[] = [
  { path: /^docs\/api\/reference\.md$/, line: /"told": n/, reason: 'member of the erasure JSON' },
  {
    path: /^test\/(?:service|workflows)\//,
    line: /name: 'look'|signal\('look'\)/,
    reason: 'Temporal signal and tool names recorded in histories',
  },
  { path: /^src\/app\/cleanup\.ts$/, line: /name: .(old-)?words./, reason: 'persisted step names' },
  { path: /^workflows\/contract\.ts$/, line: /wakeSignal/, reason: 'persisted signal name' },
  {
    path: /src\/guardrails\/injection-phrases\.ts/,
    line: /pattern|\\b|\(\?:/,
    reason: "phrases of prompt injections, matched in callers' texts",
  },
  { path: /^src\/http\/routes\/memory\/response-schemas\.ts$/, line: /\btold: count/, reason: 'processes.told is a member of the API' },
  { path: /src\/http\/routes\/memory-json\.ts/, line: /told: report\.processes/, reason: 'member of the erasure JSON' },
  {
    path: /src\/memory\/learning\/(extraction|consolidation)\.ts/,
    line: /(words|stand|stands)\b/,
    reason: 'prompt text sent to models; a change would alter what is learned',
  },
  { path: /src\/memory\/learning\/extraction\.ts/, line: /look_for/, reason: 'member of the prompt JSON' },
  {
    path: /src\/memory\/triggers\/learning-triggers\.ts/,
    line: /name: .look./,
    reason: 'Temporal signal name recorded in workflow histories',
  },
  {
    path: /test\/(memory|service)\/.*\.ts/,
    line: /[Ll]ives[ _](in|Oslo)|she lives/,
    reason: 'memory texts and relation names in test data',
  },
  { path: /test\/guardrails\/injection\.test\.ts/, line: /\b(words|room)\b/, reason: 'text of prompt injections' },
  { path: /test\/memory\/.*\.ts/, line: /'look'|signal: .look./, reason: 'Temporal signal name' },
  {
    path: /workflows\/notes\.ts|^docs\/|^CHANGELOG/,
    line: /(?:old-)?words'?: '|[Ss]ignal,? `look`/,
    reason: 'names of cleanup steps and of a signal, recorded in histories',
  },
  { path: /test\/memory\/indexing\/reindex\.test\.ts/, line: /old-words/, reason: 'cleanup step name recorded in histories' },
  { path: /(?:mcp|oidc|server|reference|security)/, line: /\.well-known\//, reason: 'path of RFC 8615' },
  { path: /test\/service\/erasure\.test\.ts/, line: /told: 1/, reason: 'member of the erasure JSON' },
];

test('code and documentation use plain technical English', () => {
  const files = readFiles();
  expect(files.length).toBeGreaterThan(300);
  expect(files.flatMap(({ path, text }) => findViolations(path, text))).toEqual([]);
});

test('every exception is needed', () => {
  const files = readFiles();
  const unused = exceptions.filter(({ path, line }) => !files.some((file) => path.test(file.path) && linesOf(file.text).some(isHit(line))));
  expect(unused.map(({ path, line }) => `${path} ${line}`)).toEqual([]);
});

describe('a violation is reported with its path, line and term', () => {
  test.each([
    ['in a comment', '// The caller is told.', 'told'],
    ['in a string', "const text = 'by itself';", 'by itself'],
    ['as an identifier', 'const words = split(text);', 'words'],
    ['in capitals', 'Look here.', 'Look'],
    ['a reference to a document of another place', '// See specification 4.2.', 'specification 4.2'],
  ])('%s', (_where, line, term) => {
    expect(findViolations('src/core/a.ts', `first line\n${line}\n`)).toEqual([`src/core/a.ts:2: ${term}`]);
  });

  test('and not inside of longer names', () => {
    expect(findViolations('src/core/a.ts', 'const wordsToIndex = lookAtErasure(wellFormed, classroom);')).toEqual([]);
  });
});

/** `path:line: term` for each banned term and outside reference. */
function findViolations(path: string, text: string): string[] {
  if (!isHit(violation)(text)) return [];
  return linesOf(text).flatMap((line, index) => {
    const terms = [...line.matchAll(violation)].map((match) => match[0]);
    if (terms.length === 0 || exceptions.some((exception) => exception.path.test(path) && exception.line.test(line))) return [];
    return terms.map((term) => `${path}:${index + 1}: ${term}`);
  });
}

function linesOf(text: string): string[] {
  return text.split('\n');
}

function isHit(pattern: RegExp): (text: string) => boolean {
  return (text) => text.search(pattern) >= 0;
}

function readFiles(): { path: string; text: string }[] {
  const paths = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name).replaceAll('\\', '/')),
  );
  return [...pages, ...paths.filter((path) => /\.(?:md|ts|js|cfg|sh)$/.test(path) && !excluded.test(path))].map((path) => ({
    path,
    text: readFileSync(join(root, path), 'utf8'),
  }));
}
