import { expect, test } from '@jest/globals';
import { summarizeRun } from '../../scripts/test-summary.js';

const clean = { numPassedTests: 5, numFailedTests: 0, numPendingTests: 0, numTodoTests: 0, numRuntimeErrorTestSuites: 0, skippedNames: [] };

test('a run that went well ends with its counts', () => {
  const summary = summarizeRun({ counts: clean, exitCode: 0, allowSkipped: true });
  expect(summary).toEqual({ lines: ['5 passed, 0 failed'], exitCode: 0 });
});

test('a file that could not be loaded counts as one failure', () => {
  const summary = summarizeRun({ counts: { ...clean, numFailedTests: 1, numRuntimeErrorTestSuites: 1 }, exitCode: 1, allowSkipped: true });
  expect(summary).toEqual({ lines: ['5 passed, 2 failed'], exitCode: 1 });
});

test('skipped tests are counted, and with CI=true they are failures, by name', () => {
  const counts = { ...clean, numPendingTests: 1, numTodoTests: 1, skippedNames: ['one', 'two'] };
  expect(summarizeRun({ counts, exitCode: 0, allowSkipped: true })).toEqual({ lines: ['5 passed, 0 failed, 2 skipped'], exitCode: 0 });
  expect(summarizeRun({ counts, exitCode: 0, allowSkipped: false })).toEqual({
    lines: ['CI=true: a skipped test is a failed test. Skipped: one; two', '5 passed, 2 failed'],
    exitCode: 1,
  });
});

test('a jest that ends badly is a failure even when no test failed, and when none had run', () => {
  expect(summarizeRun({ counts: clean, exitCode: 1, allowSkipped: true })).toEqual({
    lines: ['jest ended with 1 though no test failed: see above', '5 passed, 1 failed'],
    exitCode: 1,
  });
  expect(summarizeRun({ counts: null, exitCode: 137, allowSkipped: true })).toEqual({
    lines: ['jest ended with 137 before any test had run', '0 passed, 1 failed'],
    exitCode: 1,
  });
});
