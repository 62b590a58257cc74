/** A jest reporter that writes what became of each file to the file it is told by TEST_COUNTS_FILE, for `scripts/test.js`. */
import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';

/**
 * What is read of jest's own result of a file.
 * @typedef {{ testFilePath: string, testExecError?: unknown, testResults: { status: string, fullName: string }[] }} FileResult
 */

export default class CountsReporter {
  /** @param {{ rootDir: string }} config */
  constructor({ rootDir }) {
    this.rootDir = rootDir;
  }

  /**
   * @param {unknown} _contexts
   * @param {{ testResults: FileResult[] }} results
   */
  onRunComplete(_contexts, { testResults }) {
    const target = process.env['TEST_COUNTS_FILE'];
    if (target === undefined) return;
    const files = testResults.map((file) => countFile(file, relative(this.rootDir, file.testFilePath)));
    writeFileSync(target, JSON.stringify(files));
  }
}

/**
 * @param {FileResult} file
 * @param {string} path
 * @returns {import('./test-summary.js').FileCounts}
 */
function countFile({ testExecError, testResults }, path) {
  /** @param {string} status */
  const namesOf = (status) => testResults.filter((test) => test.status === status).map((test) => test.fullName);
  return {
    path,
    passed: namesOf('passed').length,
    failed: namesOf('failed').length,
    broken: testExecError ? 1 : 0,
    skippedNames: [...namesOf('pending'), ...namesOf('todo')],
  };
}
