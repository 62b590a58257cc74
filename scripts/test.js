/**
 * `npm test`: every test under the right Node. Arguments are jest's: `npm test -- test/keys`. The last line is `N passed, N failed`, with
 * `, N skipped` where tests were skipped; the exit code is 1 when anything failed. With CI=true nothing may be skipped, and a file that
 * failed beside others is run once more alone, which then counts (docs/decisions/2026-11-21-ci-retry.md).
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { hasCode } from './file-lock.js';
import { prepare, root, runChild } from './launch.js';
import { filesToRetry, mergeRuns, summarizeRun } from './test-summary.js';

const args = process.argv.slice(2);
const isCi = process.env['CI'] === 'true';
const node = await prepare({ dev: true });
const scratch = mkdtempSync(join(tmpdir(), 'gateway-test-'));
try {
  const first = await runJest(args);
  const retried = isCi ? filesToRetry(first.files) : [];
  const second =
    retried.length > 0 ? await runJest(['--runInBand', '--runTestsByPath', ...retried]) : { files: [], exitCode: first.exitCode };
  const merged = first.files && second.files ? mergeRuns(first.files, second.files) : { files: first.files, lines: [] };
  // With a name pattern jest calls everything else skipped, and that is what was asked for.
  const hasNamePattern = args.some((argument) => argument === '-t' || argument.startsWith('--testNamePattern'));
  const { lines, exitCode } = summarizeRun({ files: merged.files, exitCode: second.exitCode, allowSkipped: !isCi || hasNamePattern });
  for (const line of [...merged.lines, ...lines]) process.stdout.write(`${line}\n`);
  process.exitCode = exitCode;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

/**
 * @param {string[]} jestArgs
 * @returns {Promise<{ files: import('./test-summary.js').FileCounts[] | null, exitCode: number }>}
 */
async function runJest(jestArgs) {
  const countsFile = join(scratch, 'counts.json');
  rmSync(countsFile, { force: true });
  process.env['TEST_COUNTS_FILE'] = countsFile;
  const { code, signal } = await runChild(node, [
    '--import',
    new URL('end-with-bootstrap.js', import.meta.url).href,
    '--experimental-vm-modules',
    '--disable-warning=ExperimentalWarning',
    join(root, 'node_modules', 'jest', 'bin', 'jest.js'),
    '--rootDir',
    root,
    ...jestArgs,
  ]);
  return { files: readCounts(countsFile), exitCode: code ?? 128 + (signal === null ? 0 : constants.signals[signal]) };
}

/** @param {string} countsFile */
function readCounts(countsFile) {
  try {
    return JSON.parse(readFileSync(countsFile, 'utf8'));
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}
