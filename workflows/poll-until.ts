/**
 * What workflows share: loops that poll an activity and continue as a new run when the server suggests it, before the history reaches its
 * limit, and options of activities.
 *
 * A change of their commands breaks running workflows: test/workflows/replay.test.ts replays recorded histories.
 */
import { sleep, workflowInfo } from '@temporalio/workflow';
import type { Progress, Wait } from './contract.ts';

/** Starts the next run with `continueAsNew`, which never returns. */
type ContinueAsNew = () => Promise<never>;

/** Options of an activity in which only the database or Temporal can fail: both recover, so the attempts are unlimited. */
export const recoveringActivity = {
  heartbeatTimeout: '12 seconds',
  retry: { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '10 minutes' },
} as const;

/** Lower bound of delays, so that a rounded delay never makes a run spin. */
export const minWaitMs = 1_000;

/** Calls `check` until its result is not `wait`, sleeping as long as each `wait` asks; returns that result. */
export async function pollUntil<Result extends { readonly kind: string }>(
  check: () => Promise<Result | Wait>,
  continueRun: ContinueAsNew,
): Promise<Result> {
  for (;;) {
    const result = await check();
    if (!isWait(result)) return result;
    await sleep(Math.max(minWaitMs, result.waitMs));
    if (workflowInfo().continueAsNewSuggested) await continueRun();
  }
}

/** Calls `step` until it returns `done`. */
export async function repeatWhileMore(step: () => Promise<Progress>, continueRun: ContinueAsNew): Promise<void> {
  while ((await step()).kind === 'more') {
    if (workflowInfo().continueAsNewSuggested) await continueRun();
  }
}

function isWait(result: { readonly kind: string }): result is Wait {
  return result.kind === 'wait';
}
