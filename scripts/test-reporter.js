/**
 * A reporter for jest. It writes the results of all test files to TEST_RESULTS_FILE, from where `scripts/test.js` reads
 * them.
 */
import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';

/**
 * The properties of jest's results that we use.
 * @typedef {object} JestFileResult
 * @property {string} testFilePath
 * @property {unknown} [testExecError]
 * @property {{ start: number, end: number }} perfStats
 * @property {number} [cpuSeconds] `test/support/native-runner.ts` adds it
 * @property {{ status: string, fullName: string }[]} testResults
 */

export default class TestReporter {
  /** @param {{ rootDir: string }} config */
  constructor({ rootDir }) {
    this.rootDir = rootDir;
  }

  /**
   * @param {unknown} _contexts
   * @param {{ testResults: JestFileResult[] }} results
   */
  onRunComplete(_contexts, { testResults }) {
    const target = process.env['TEST_RESULTS_FILE'];
    if (target === undefined) return;
    const files = testResults.map((file) => summarizeFile(file, relative(this.rootDir, file.testFilePath)));
    writeFileSync(target, JSON.stringify(files));
  }
}

/**
 * @param {JestFileResult} file
 * @param {string} path
 * @returns {import('./test-summary.js').FileResult}
 */
function summarizeFile({ testExecError, perfStats, cpuSeconds = 0, testResults }, path) {
  /** @param {string} status */
  const withStatus = (status) => testResults.filter((test) => test.status === status).map((test) => test.fullName);
  return {
    path,
    seconds: (perfStats.end - perfStats.start) / 1000,
    cpuSeconds,
    passed: withStatus('passed').length,
    failed: withStatus('failed').length,
    broken: testExecError ? 1 : 0,
    skippedNames: [...withStatus('pending'), ...withStatus('todo')],
  };
}
