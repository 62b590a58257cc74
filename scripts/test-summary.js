/** What `npm test` says at its end: counts in one plain line, and why it failed when no test says so. */

/**
 * @typedef {{ numPassedTests: number, numFailedTests: number, numPendingTests: number, numTodoTests: number, numRuntimeErrorTestSuites: number, skippedNames: string[] }} Counts
 */

/**
 * @param {{ counts: Counts | null, exitCode: number, allowSkipped: boolean }} run `counts` is null when jest ended before it had any.
 * @returns {{ lines: string[], exitCode: number }} the summary is the last of the lines
 */
export function summarizeRun({ counts, exitCode, allowSkipped }) {
  if (counts === null) {
    // `--help`, `--listTests` and the like run no tests and do well.
    if (exitCode === 0) return { lines: [], exitCode: 0 };
    return { lines: [`jest ended with ${exitCode} before any test had run`, '0 passed, 1 failed'], exitCode: 1 };
  }
  const lines = [];
  const skipped = counts.numPendingTests + counts.numTodoTests;
  // A file that cannot be loaded has no tests that could fail.
  let failed = counts.numFailedTests + counts.numRuntimeErrorTestSuites;
  if (!allowSkipped && skipped > 0) {
    lines.push(`CI=true: a skipped test is a failed test. Skipped: ${counts.skippedNames.join('; ')}`);
    failed += skipped;
  }
  if (failed === 0 && exitCode !== 0) {
    lines.push(`jest ended with ${exitCode} though no test failed: see above`);
    failed = 1;
  }
  const skippedPart = allowSkipped && skipped > 0 ? `, ${skipped} skipped` : '';
  return { lines: [...lines, `${counts.numPassedTests} passed, ${failed} failed${skippedPart}`], exitCode: failed > 0 ? 1 : 0 };
}
