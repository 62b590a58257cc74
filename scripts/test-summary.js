/**
 * Creates the summary at the end of `npm test`. It has a line with the counts, the reasons for failures outside of
 * tests, and the slowest files.
 */

/**
 * The result of a test file. If jest couldn't load the file, no test has run, so `broken` is 1 to make the run fail.
 * `cpuSeconds` includes the processes that the file has started.
 * @typedef {{ path: string, seconds: number, cpuSeconds: number, passed: number, failed: number, broken: number, skippedNames: string[] }} FileResult
 */

const shownDurations = 20;

/**
 * @param {{ files: FileResult[] | null, exitCode: number, allowSkipped: boolean }} run `files` is null if jest exited
 * before running any
 * @returns {{ lines: string[], exitCode: number }} the last line has the counts
 */
export function summarizeRun({ files, exitCode, allowSkipped }) {
  if (files === null) {
    // With options like `--help` and `--listTests`, jest doesn't run anything.
    if (exitCode === 0) return { lines: [], exitCode: 0 };
    return { lines: [`jest exited with ${exitCode} before any test had run`, '0 passed, 1 failed'], exitCode: 1 };
  }
  const lines = [];
  const passed = files.reduce((sum, file) => sum + file.passed, 0);
  const skippedNames = files.flatMap((file) => file.skippedNames);
  let failed = files.reduce((sum, file) => sum + file.failed + file.broken, 0);
  if (!allowSkipped && skippedNames.length > 0) {
    lines.push(`skipped tests count as failed, because CI=true: ${skippedNames.join('; ')}`);
    failed += skippedNames.length;
  }
  if (failed === 0 && exitCode !== 0) {
    lines.push(`jest exited with ${exitCode} although no test failed; see the output above`);
    failed = 1;
  }
  const skippedPart = allowSkipped && skippedNames.length > 0 ? `, ${skippedNames.length} skipped` : '';
  return { lines: [...lines, `${passed} passed, ${failed} failed${skippedPart}`], exitCode: failed > 0 ? 1 : 0 };
}

/**
 * Lists the slowest files, and then those that take the most CPU time. Each has its wall-clock time and its CPU time in
 * seconds.
 * @param {FileResult[]} files
 * @returns {string[]}
 */
export function formatDurations(files) {
  /** @param {'seconds' | 'cpuSeconds'} key */
  const list = (key) =>
    files
      .toSorted((a, b) => b[key] - a[key])
      .slice(0, shownDurations)
      .map(({ path, seconds, cpuSeconds }) => `${format(seconds)} s ${format(cpuSeconds)} s CPU  ${path}`);
  const cpuSeconds = files.reduce((sum, file) => sum + file.cpuSeconds, 0);
  return [
    `The slowest of ${files.length} files:`,
    ...list('seconds'),
    `The files that use the most of ${cpuSeconds.toFixed(0)} seconds of CPU time:`,
    ...list('cpuSeconds'),
  ];
}

/** @param {number} seconds */
function format(seconds) {
  return seconds.toFixed(1).padStart(8);
}
