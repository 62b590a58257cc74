/**
 * Selects the tests that import a changed file, directly or indirectly. A file counts as changed if it's different from
 * the one on `main`, or if it's new, whether or not it's committed. If you're on `main` yourself, only uncommitted
 * changes count.
 *
 * Tests of whole services import nearly everything, so we only take as many tests as we can run in about a minute. We
 * start with tests that have changed or are in the folder of the changed module, and then go on with those that have
 * the fewest imports in between.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { readDurations } from './test-durations.js';

/**
 * Add test files until their durations reach this total. The run takes about half as long, because two files run at a
 * time.
 */
const maxSeconds = 80;
/** We assume this duration for tests that don't have a recorded one. */
const defaultSeconds = 0.5;
const sourceRoots = ['src', 'workflows', 'activities', 'scripts', 'test'];

/**
 * @param {string} root
 * @returns {{ tests: string[], lines: string[] }} `lines` describe what was selected
 */
export function selectChangedTests(root) {
  const changed = listChanged(root);
  const files = readSources(root);
  const ranked = rankTests({ files, changed });
  const tests = takeWithin(maxSeconds, ranked, readDurations());
  const skipped = ranked.length - tests.length;
  const rest = skipped === 0 ? '' : `; ${skipped} more depend on the change only indirectly: \`npm test\` runs them`;
  return { tests, lines: [`${changed.length} changed files, ${tests.length} test files${rest}`] };
}

/**
 * @param {string} root
 * @returns {Map<string, string>} the text of every source and test by its path
 */
function readSources(root) {
  const paths = sourceRoots.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  );
  const modules = paths.filter((path) => /\.[tj]s$/.test(path));
  return new Map(modules.map((path) => [path, readFileSync(join(root, path), 'utf8')]));
}

/**
 * Finds all test files that import a changed file, directly or indirectly. The closest ones come first.
 * @param {{ files: ReadonlyMap<string, string>, changed: readonly string[] }} tree `files` holds the text of every
 * source and test by its path
 * @returns {string[]}
 */
export function rankTests({ files, changed }) {
  const importers = invert(files);
  /** @type {Map<string, number>} */
  const distances = new Map();
  let frontier = changed.flatMap((path) => (files.has(path) ? [path] : filesNaming(path, files)));
  for (let distance = 0; frontier.length > 0; distance += 1) {
    const reached = frontier.filter((path) => !distances.has(path));
    for (const path of reached) distances.set(path, distance);
    frontier = reached.flatMap((path) => importers.get(path) ?? []);
  }
  const modules = new Set(changed.filter((path) => !path.startsWith('test/')).map(moduleOf));
  /** @param {string} path */
  const rankOf = (path) => {
    const distance = distances.get(path) ?? 0;
    return distance > 0 && modules.has(moduleOf(path)) ? 0.5 : distance;
  };
  const tests = [...distances.keys()].filter((path) => path.endsWith('.test.ts'));
  return tests.toSorted((a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1));
}

/**
 * Takes as many tests from the start of the list as can run in `limit` seconds, but at least one.
 * @param {number} limit
 * @param {readonly string[]} ranked
 * @param {Record<string, number>} durations
 * @returns {string[]}
 */
export function takeWithin(limit, ranked, durations) {
  let seconds = 0;
  return ranked.filter((path, index) => {
    const duration = durations[path] ?? defaultSeconds;
    if (index > 0 && seconds + duration > limit) return false;
    seconds += duration;
    return true;
  });
}

/**
 * Maps `src/memory/items/items.ts` and `test/memory/items/items.test.ts` to `memory/items`.
 * @param {string} path
 */
function moduleOf(path) {
  return dirname(path.replace(/^(?:src|test)\//, ''));
}

/**
 * @param {ReadonlyMap<string, string>} files
 * @returns {Map<string, string[]>} the files that import each file or start it as a program
 */
function invert(files) {
  /** @type {Map<string, string[]>} */
  const importers = new Map();
  for (const [path, text] of files) {
    for (const imported of importsOf(path, text)) importers.set(imported, [...(importers.get(imported) ?? []), path]);
  }
  return importers;
}

/**
 * @param {string} path
 * @param {string} text
 * @returns {Set<string>}
 */
function importsOf(path, text) {
  const relativePaths = text.matchAll(/(?:from|import|import\(|new URL\()\s*'(\.[^']+|[^'.][^'/]*\.ts)'/g);
  const imported = new Set([...relativePaths].map(([, target = '']) => join(dirname(path), target)));
  // A test that starts a program doesn't import it. Its path is split into two strings, the folder and the file's name.
  for (const [, folder, name] of text.matchAll(/'(src|scripts)', '([\w-]+\.[tj]s)'/g)) imported.add(join(folder ?? '', name ?? ''));
  return imported;
}

/**
 * Finds the modules whose text mentions a file that can't be imported (e.g. SQL, YAML or documentation) or its folder.
 * Returns nothing for a deleted module, because the modules that imported it have changed as well.
 * @param {string} path
 * @param {ReadonlyMap<string, string>} files
 */
function filesNaming(path, files) {
  if (/\.[tj]s$/.test(path)) return [];
  const folder = basename(dirname(path));
  const names = folder === '.' ? [basename(path)] : [basename(path), `${folder}/`];
  return [...files].filter(([, text]) => names.some((name) => text.includes(name))).map(([file]) => file);
}

/** @param {string} root */
function listChanged(root) {
  /** @param {string[]} args */
  const git = (...args) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
      .split('\n')
      .filter(Boolean);
  const base = mergeBase(git);
  const changed = [...git('diff', '--name-only', '--no-renames', base), ...git('ls-files', '--others', '--exclude-standard')];
  return [...new Set(changed)].filter((path) => existsSync(join(root, path)) || /\.[tj]s$/.test(path)).toSorted();
}

/** @param {(...args: string[]) => string[]} git */
function mergeBase(git) {
  for (const branch of ['origin/main', 'main']) {
    try {
      const [base] = git('merge-base', 'HEAD', branch);
      if (base) return base;
    } catch {
      // This clone has no such branch, so try the next one.
    }
  }
  return 'HEAD';
}
