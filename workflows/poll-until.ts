/**
 * Loops of workflows that poll an activity. They continue as a new run when the server suggests it, before the history reaches its limit.
 *
 * A change of their commands breaks running workflows: test/workflows/replay.test.ts replays recorded histories.
 */
import { sleep, workflowInfo } from '@temporalio/workflow';

/** An activity's result that asks to be called again after a delay. */
interface Wait {
  readonly kind: 'wait';
  readonly waitMs: number;
}

/** Starts the next run with `continueAsNew`, which never returns. */
type ContinueAsNew = () => Promise<never>;

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
export async function repeatWhileMore(step: () => Promise<{ readonly kind: 'done' | 'more' }>, continueRun: ContinueAsNew): Promise<void> {
  while ((await step()).kind === 'more') {
    if (workflowInfo().continueAsNewSuggested) await continueRun();
  }
}

function isWait(result: { readonly kind: string }): result is Wait {
  return result.kind === 'wait';
}
