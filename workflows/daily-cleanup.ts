/**
 * Deletes data past its retention period. A schedule starts this workflow every day. The activity decides which step
 * comes next, so we can add steps without breaking running workflows. The list of steps in this file is only there to
 * show operators how far a run has got.
 */
import { ApplicationFailure, continueAsNew, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { Activities, CleanupInput } from './contract.ts';
import { cleanupTasks, note } from './notes.ts';
import { createRetries, findFailureCode, retryTurnedAway } from './retries.ts';
import { createRunStatus } from './run-status.ts';

// A step may build an index over millions of rows, which can take hours.
const options = { startToCloseTimeout: '6 hours', heartbeatTimeout: '30 seconds', retry: retryTurnedAway } as const;
const { cleanUp } = proxyActivities<Activities>(options);

/**
 * The attempts take about four hours in total. After that the run fails, and the next day's run starts from the
 * beginning, so that one failing step doesn't block the others forever.
 */
const retries = { firstMs: 60_000, maxMs: 3_600_000, maxTries: 10 };

/** These have to match the activity's steps. A test checks this. */
export const cleanupSteps: readonly string[] = Object.keys(cleanupTasks);

export async function dailyCleanup(
  input: CleanupInput,
): Promise<{ readonly outcome: 'done'; readonly rows: Readonly<Record<string, number>> }> {
  const show = createRunStatus({ state: 'running' });
  const rows: Record<string, number> = {};
  let next: string | null = input.step;
  const retry = createRetries(show, () => continueAsNew<typeof dailyCleanup>({ step: next }));
  for (;;) {
    const step: string = next ?? cleanupSteps[0] ?? '';
    const done = Object.entries(rows).map(([name, count]) => note('cleanupRows', toTask(name), count));
    show({ state: 'running', step }, [describePosition(step), note('nextByItself'), ...done]);
    const runStep = (count: number) => cleanUp.executeWithOptions({ ...options, summary: describeTry(step, count) }, [{ step: next }]);
    const work = { facts: { step }, lines: [describePosition(step)], advice: note('nextLog') };
    const progress = await retry(runStep, retries, work).catch((error: unknown) => {
      const code = findFailureCode(error);
      if (code === null) throw error;
      const message = note('cleanupFailed', toTask(step), retries.maxTries, code);
      const missing = cleanupSteps.slice(cleanupSteps.indexOf(step) + 1).map((name) => note('cleanupNotRun', toTask(name)));
      const failed = note('cleanupStepFailed', toTask(step));
      show({ state: 'failed', step }, [message, note('nextCleanup'), ...done, failed, ...missing]);
      throw ApplicationFailure.nonRetryable(message, 'CleanupStepFailed');
    });
    // In the histories of older versions, results have no `step`.
    const ran = progress.step ?? step;
    rows[ran] = (rows[ran] ?? 0) + progress.rows;
    next = progress.next;
    if (next === null) break;
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof dailyCleanup>({ step: next });
  }
  const done = Object.entries(rows).map(([name, count]) => note('cleanupRows', toTask(name), count));
  show({ state: 'done' }, [note('nextNothing'), note('cleanupDone'), ...done]);
  return { outcome: 'done', rows };
}

function toTask(step: string): string {
  return Object.hasOwn(cleanupTasks, step) ? cleanupTasks[step as keyof typeof cleanupTasks] : `step ${step}`;
}

function describePosition(step: string): string {
  const index = cleanupSteps.indexOf(step);
  return index < 0 ? note('cleanupRuns', toTask(step)) : note('cleanupPosition', index + 1, cleanupSteps.length, toTask(step));
}

function describeTry(step: string, count: number): string {
  return count === 1 ? note('cleanupStep', toTask(step)) : note('cleanupTry', toTask(step), count, retries.maxTries);
}
