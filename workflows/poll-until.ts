/**
 * Polling loops that several workflows share. Before the history reaches its limit, the server suggests continuing as
 * new, and the loops do that.
 *
 * Don't change the commands that these loops issue, because that would break running workflows.
 * test/workflows/replay.test.ts catches this by replaying recorded histories.
 */
import { sleep, workflowInfo } from '@temporalio/workflow';
import type { Progress, Wait } from './contract.ts';

/** Starts the next run with `continueAsNew`, which never returns. */
type ContinueAsNew = () => Promise<never>;

/** All delays are at least this long. This keeps a run from spinning if a delay was rounded down to zero. */
export const minWaitMs = 1_000;

export function timeAfter(waitMs: number): Date {
  return new Date(Date.now() + Math.max(minWaitMs, waitMs));
}

/**
 * Calls `check` until it returns something other than `wait`, and then returns that result. `check` gets the number of
 * the call, starting at 1. After a `wait`, sleeps for as long as the result says. `describeWait` returns the summary of
 * the timer, and can also show the wait in other places.
 */
export async function pollUntil<Result extends { readonly kind: string }>(
  check: (count: number) => Promise<Result>,
  describeWait: (wait: Extract<Result, Wait>, nextAt: Date, count: number) => string,
  continueRun: ContinueAsNew,
): Promise<Exclude<Result, Wait>> {
  for (let count = 1; ; count += 1) {
    const result = await check(count);
    if (!isWait(result)) return result as Exclude<Result, Wait>;
    const summary = describeWait(result as Extract<Result, Wait>, timeAfter(result.waitMs), count);
    await sleep(Math.max(minWaitMs, result.waitMs), { summary });
    if (workflowInfo().continueAsNewSuggested) await continueRun();
  }
}

/** Calls `step` until it returns `done`. `step` gets the number of the call, starting at 1. */
export async function repeatWhileMore(step: (count: number) => Promise<Progress>, continueRun: ContinueAsNew): Promise<void> {
  for (let count = 1; (await step(count)).kind === 'more'; count += 1) {
    if (workflowInfo().continueAsNewSuggested) await continueRun();
  }
}

function isWait(result: { readonly kind: string }): result is Wait {
  return result.kind === 'wait';
}
