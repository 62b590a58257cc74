import { expect, test } from '@jest/globals';
import { filesToRetry, mergeRuns, summarizeRun } from '../../scripts/test-summary.js';

const clean = { path: 'test/a.test.ts', passed: 5, failed: 0, broken: 0, skippedNames: [] };
const failed = { ...clean, path: 'test/b.test.ts', passed: 3, failed: 2 };
const broken = { ...clean, path: 'test/c.test.ts', passed: 0, broken: 1 };

test('a run that went well ends with its counts', () => {
  const summary = summarizeRun({ files: [clean, clean], exitCode: 0, allowSkipped: true });
  expect(summary).toEqual({ lines: ['10 passed, 0 failed'], exitCode: 0 });
});

test('a file that could not be loaded counts as one failure', () => {
  const summary = summarizeRun({ files: [clean, failed, broken], exitCode: 1, allowSkipped: true });
  expect(summary).toEqual({ lines: ['8 passed, 3 failed'], exitCode: 1 });
});

test('skipped tests are counted, and with CI=true they are failures, by name', () => {
  const files = [{ ...clean, skippedNames: ['one', 'two'] }];
  expect(summarizeRun({ files, exitCode: 0, allowSkipped: true })).toEqual({ lines: ['5 passed, 0 failed, 2 skipped'], exitCode: 0 });
  expect(summarizeRun({ files, exitCode: 0, allowSkipped: false })).toEqual({
    lines: ['CI=true: a skipped test is a failed test. Skipped: one; two', '5 passed, 2 failed'],
    exitCode: 1,
  });
});

test('a jest that ends badly is a failure even when no test failed, and when none had run', () => {
  expect(summarizeRun({ files: [clean], exitCode: 1, allowSkipped: true })).toEqual({
    lines: ['jest ended with 1 though no test failed: see above', '5 passed, 1 failed'],
    exitCode: 1,
  });
  expect(summarizeRun({ files: null, exitCode: 137, allowSkipped: true })).toEqual({
    lines: ['jest ended with 137 before any test had run', '0 passed, 1 failed'],
    exitCode: 1,
  });
});

test('failed files are run again, unless they are many', () => {
  expect(filesToRetry([clean, failed, broken])).toEqual([failed.path, broken.path]);
  expect(filesToRetry(Array.from({ length: 11 }, () => failed))).toEqual([]);
  expect(filesToRetry([clean])).toEqual([]);
  expect(filesToRetry(null)).toEqual([]);
});

test('a second run counts in place of the first, and what passed only then is named', () => {
  const mended = { ...failed, passed: 5, failed: 0 };
  expect(mergeRuns([clean, failed, broken], [mended, broken])).toEqual({
    files: [clean, mended, broken],
    lines: ['Failed beside other tests, and passed alone: test/b.test.ts'],
  });
});
