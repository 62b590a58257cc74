/**
 * `npm test`: every test under the right Node. Arguments are jest's: `npm test -- test/keys`. The last line is `N passed, N failed`, with
 * `, N skipped` where tests were skipped; the exit code is 1 when anything failed. With CI=true nothing may be skipped.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { hasCode } from './file-lock.js';
import { prepare, root, runChild } from './launch.js';
import { summarizeRun } from './test-summary.js';

const args = process.argv.slice(2);
const node = await prepare({ dev: true });
const scratch = mkdtempSync(join(tmpdir(), 'gateway-test-'));
const countsFile = join(scratch, 'counts.json');
process.env['TEST_COUNTS_FILE'] = countsFile;
try {
  const { code, signal } = await runChild(node, [
    '--import',
    new URL('end-with-bootstrap.js', import.meta.url).href,
    '--experimental-vm-modules',
    '--disable-warning=ExperimentalWarning',
    join(root, 'node_modules', 'jest', 'bin', 'jest.js'),
    '--rootDir',
    root,
    ...args,
  ]);
  // With a name pattern jest calls everything else skipped, and that is what was asked for.
  const hasNamePattern = args.some((argument) => argument === '-t' || argument.startsWith('--testNamePattern'));
  const { lines, exitCode } = summarizeRun({
    counts: readCounts(),
    exitCode: code ?? 128 + (signal === null ? 0 : constants.signals[signal]),
    allowSkipped: process.env['CI'] !== 'true' || hasNamePattern,
  });
  for (const line of lines) process.stdout.write(`${line}\n`);
  process.exitCode = exitCode;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

function readCounts() {
  try {
    return JSON.parse(readFileSync(countsFile, 'utf8'));
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}
