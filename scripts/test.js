/**
 * `npm test` runs the tests under the right Node. It takes jest's arguments (`npm test -- test/keys`) or one of these:
 * `--changed` runs the tests that depend on changed files, `--durations` prints the slowest files, `--exhaustive` runs
 * every case of random tests, `--record-durations` writes test-durations.json.
 *
 * The last line is `N passed, N failed`, followed by `, N skipped` if tests were skipped. The exit code is 1 if
 * anything failed. With CI=true a skipped test counts as failed.
 */
import { readFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { selectChangedTests } from './changed-tests.js';
import { hasCode } from './file-lock.js';
import { prepare, root, runChild } from './launch.js';
import { createTestDirectory } from './test-directory.js';
import { recordDurations } from './test-durations.js';
import { formatDurations, summarizeRun } from './test-summary.js';

const ownFlags = ['--changed', '--durations', '--record-durations', '--exhaustive'];
const given = process.argv.slice(2);
const flags = new Set(given.filter((argument) => ownFlags.includes(argument)));
const jestArgs = given.filter((argument) => !ownFlags.includes(argument));
if (flags.has('--exhaustive')) process.env['GATEWAY_TEST_EXHAUSTIVE'] = '1';
if (flags.has('--changed')) {
  const { tests, lines } = selectChangedTests(root);
  for (const line of lines) process.stdout.write(`${line}\n`);
  // There are no test files to run. Exit here, because jest would run all of them if we passed it an empty list.
  if (tests.length === 0) process.exit();
  jestArgs.push('--runTestsByPath', ...tests);
}

const node = await prepare({ dev: true });
const directory = createTestDirectory((reason) => {
  process.stdout.write(`${reason}; stopping the run\n`);
  // `runChild` forwards the signal to jest, which stops its workers.
  process.kill(process.pid, 'SIGTERM');
});
try {
  const { files, exitCode: jestExitCode } = await runJest();
  // With a name pattern, jest reports all other tests as skipped, which is fine.
  const hasNamePattern = jestArgs.some((argument) => argument === '-t' || argument.startsWith('--testNamePattern'));
  const allowSkipped = process.env['CI'] !== 'true' || hasNamePattern;
  const { lines, exitCode } = summarizeRun({ files, exitCode: jestExitCode, allowSkipped });
  if (flags.has('--durations')) lines.unshift(...formatDurations(files ?? []));
  if (flags.has('--record-durations')) recordDurations(files ?? []);
  for (const line of lines) process.stdout.write(`${line}\n`);
  process.exitCode = exitCode;
} finally {
  directory.remove();
}

/** @returns {Promise<{ files: import('./test-summary.js').FileResult[] | null, exitCode: number }>} */
async function runJest() {
  const resultsFile = join(directory.path, 'results.json');
  // To build Temporal, `go install` needs more space than we have in the test run's directory.
  const buildDirectory = process.env['GOTMPDIR'] || tmpdir();
  Object.assign(process.env, { TEST_RESULTS_FILE: resultsFile, TMPDIR: directory.path, GOTMPDIR: buildDirectory });
  const { code, signal } = await runChild(node, [
    '--import',
    new URL('end-with-bootstrap.js', import.meta.url).href,
    '--disable-warning=ExperimentalWarning',
    // Jest's workers inherit these options. Most of the objects that they allocate live as long as a test, so the new
    // space should be large enough for them. Embedded databases are outside of the heap, and without the second option,
    // V8 would collect the whole heap for each of them.
    '--min-semi-space-size=16',
    '--external-memory-accounted-in-global-limit',
    join(root, 'node_modules', 'jest', 'bin', 'jest.js'),
    '--rootDir',
    root,
    ...jestArgs,
  ]);
  return { files: readResults(resultsFile), exitCode: code ?? 128 + (signal === null ? 0 : constants.signals[signal]) };
}

/** @param {string} file */
function readResults(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}
