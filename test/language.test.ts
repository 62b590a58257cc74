/** Tests that the repository doesn't refer to documents that its readers don't have. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';

const root = join(import.meta.dirname, '..');
const folders = ['deploy', 'docs', 'src', 'workflows', 'activities', 'scripts', 'test'];
const pages = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'gateway.example.yaml', 'docker-compose.yml', 'Dockerfile'];
/**
 * We skip files that are generated or recorded, and migrations, which can't change because the gateway compares their
 * checksums at startup.
 */
const excluded = /^(?:docs\/api\/openapi\.json|src\/db\/migrations\/|test\/fixtures\/|test\/language\.test\.ts$)/;

const references = [
  '(?:decisions?|shapes?|lessons?|vendor facts|specification|spec|house) \\d+(?:\\.\\d+)?',
  'vendor facts',
  '(?:house|shapes|decisions|lessons|vendor-facts)\\.md',
];
const reference = new RegExp(`\\b(?:${references.join('|')})\\b`, 'gi');

test("comments and pages don't refer to documents outside the repository", () => {
  const files = readFiles();
  expect(files.length).toBeGreaterThan(300);
  expect(files.flatMap(({ path, text }) => findReferences(path, text))).toEqual([]);
});

test('reports a reference to an outside document with its file and line', () => {
  const text = 'first line\n// See specification 4.2, and vendor facts.\n';
  expect(findReferences('src/core/a.ts', text)).toEqual(['src/core/a.ts:2: specification 4.2', 'src/core/a.ts:2: vendor facts']);
});

function findReferences(path: string, text: string): string[] {
  return text.split('\n').flatMap((line, index) => [...line.matchAll(reference)].map(([found]) => `${path}:${index + 1}: ${found}`));
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
