/** A jest reporter that writes the counts of a run to the file it is told by TEST_COUNTS_FILE, for `scripts/test.js`. */
import { writeFileSync } from 'node:fs';

/**
 * What is read of jest's own result.
 * @typedef {Omit<import('./test-summary.js').Counts, 'skippedNames'> & { testResults: { testResults: { status: string, fullName: string }[] }[] }} Results
 */

export default class CountsReporter {
  /**
   * @param {unknown} _contexts
   * @param {Results} results
   */
  onRunComplete(_contexts, results) {
    const file = process.env['TEST_COUNTS_FILE'];
    if (file === undefined) return;
    const { numPassedTests, numFailedTests, numPendingTests, numTodoTests, numRuntimeErrorTestSuites } = results;
    const skippedNames = results.testResults
      .flatMap((suite) => suite.testResults)
      .filter((test) => test.status === 'pending' || test.status === 'todo')
      .map((test) => test.fullName);
    const counts = { numPassedTests, numFailedTests, numPendingTests, numTodoTests, numRuntimeErrorTestSuites, skippedNames };
    writeFileSync(file, JSON.stringify(counts));
  }
}
