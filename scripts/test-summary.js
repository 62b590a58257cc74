/** What `npm test` says at its end: counts in one plain line, and why it failed when no test says so. */

/**
 * What became of one test file. `broken` is 1 when it could not be loaded, and has no tests that could fail.
 * @typedef {{ path: string, passed: number, failed: number, broken: number, skippedNames: string[] }} FileCounts
 */

/** More failed files than this are no matter of a busy machine: they are not run again. */
const RETRIED_FILES = 10;

/**
 * The files to run once more alone: all that failed, or none when they are many (docs/decisions/2026-11-21-ci-retry.md).
 * @param {FileCounts[] | null} files
 * @returns {string[]}
 */
export function filesToRetry(files) {
  const failed = (files ?? []).filter((file) => file.failed + file.broken > 0).map((file) => file.path);
  return failed.length <= RETRIED_FILES ? failed : [];
}

/**
 * The first run with what a second run of some of its files found in their place.
 * @param {FileCounts[]} first
 * @param {FileCounts[]} second
 * @returns {{ files: FileCounts[], lines: string[] }} `lines` name what passed only the second time
 */
export function mergeRuns(first, second) {
  const retried = new Map(second.map((file) => [file.path, file]));
  const passed = second.filter((file) => file.failed + file.broken === 0).map((file) => file.path);
  return {
    files: first.map((file) => retried.get(file.path) ?? file),
    lines: passed.length === 0 ? [] : [`Failed beside other tests, and passed alone: ${passed.join(', ')}`],
  };
}

/**
 * @param {{ files: FileCounts[] | null, exitCode: number, allowSkipped: boolean }} run `files` is null when jest ended before it had any.
 * @returns {{ lines: string[], exitCode: number }} the summary is the last of the lines
 */
export function summarizeRun({ files, exitCode, allowSkipped }) {
  if (files === null) {
    // `--help`, `--listTests` and the like run no tests and do well.
    if (exitCode === 0) return { lines: [], exitCode: 0 };
    return { lines: [`jest ended with ${exitCode} before any test had run`, '0 passed, 1 failed'], exitCode: 1 };
  }
  const lines = [];
  const passed = files.reduce((sum, file) => sum + file.passed, 0);
  const skippedNames = files.flatMap((file) => file.skippedNames);
  let failed = files.reduce((sum, file) => sum + file.failed + file.broken, 0);
  if (!allowSkipped && skippedNames.length > 0) {
    lines.push(`CI=true: a skipped test is a failed test. Skipped: ${skippedNames.join('; ')}`);
    failed += skippedNames.length;
  }
  if (failed === 0 && exitCode !== 0) {
    lines.push(`jest ended with ${exitCode} though no test failed: see above`);
    failed = 1;
  }
  const skippedPart = allowSkipped && skippedNames.length > 0 ? `, ${skippedNames.length} skipped` : '';
  return { lines: [...lines, `${passed} passed, ${failed} failed${skippedPart}`], exitCode: failed > 0 ? 1 : 0 };
}
