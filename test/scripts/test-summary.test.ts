import { expect, test } from '@jest/globals';
import { formatDurations, summarizeRun } from '../../scripts/test-summary.js';

const clean = { path: 'test/a.test.ts', seconds: 1, cpuSeconds: 2, passed: 5, failed: 0, broken: 0, skippedNames: [] };
const failed = { ...clean, path: 'test/b.test.ts', passed: 3, failed: 2 };
const broken = { ...clean, path: 'test/c.test.ts', passed: 0, broken: 1 };

test('prints only the counts after a successful test run', () => {
  const summary = summarizeRun({ files: [clean, clean], exitCode: 0, allowSkipped: true });
  expect(summary).toEqual({ lines: ['10 passed, 0 failed'], exitCode: 0 });
});

test("counts a test file that can't be loaded as one failure", () => {
  const summary = summarizeRun({ files: [clean, failed, broken], exitCode: 1, allowSkipped: true });
  expect(summary).toEqual({ lines: ['8 passed, 3 failed'], exitCode: 1 });
});

test('reports skipped tests as failures with CI=true', () => {
  const files = [{ ...clean, skippedNames: ['one', 'two'] }];
  expect(summarizeRun({ files, exitCode: 0, allowSkipped: true })).toEqual({ lines: ['5 passed, 0 failed, 2 skipped'], exitCode: 0 });
  expect(summarizeRun({ files, exitCode: 0, allowSkipped: false })).toEqual({
    lines: ['skipped tests count as failed, because CI=true: one; two', '5 passed, 2 failed'],
    exitCode: 1,
  });
});

test('reports a crashed jest process as a failure', () => {
  expect(summarizeRun({ files: [clean], exitCode: 1, allowSkipped: true })).toEqual({
    lines: ['jest exited with 1 although no test failed; see the output above', '5 passed, 1 failed'],
    exitCode: 1,
  });
  expect(summarizeRun({ files: null, exitCode: 137, allowSkipped: true })).toEqual({
    lines: ['jest exited with 137 before any test had run', '0 passed, 1 failed'],
    exitCode: 1,
  });
});

test('lists the twenty slowest test files, and the twenty that take the most CPU time', () => {
  const files = Array.from({ length: 25 }, (_, index) => ({
    ...clean,
    path: `test/${index}.test.ts`,
    seconds: index + 0.25,
    cpuSeconds: 50 - index,
  }));
  const lines = formatDurations(files);
  expect(lines).toHaveLength(42);
  expect(lines.slice(0, 2)).toEqual(['The slowest of 25 files:', '    24.3 s     26.0 s CPU  test/24.test.ts']);
  expect(lines.slice(21, 23)).toEqual([
    'The files that use the most of 950 seconds of CPU time:',
    '     0.3 s     50.0 s CPU  test/0.test.ts',
  ]);
});
