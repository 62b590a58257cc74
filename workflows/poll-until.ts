/**
 * Loops that several workflows share. They poll an activity, and continue as a new run when the server suggests it,
 * before the history reaches its limit.
 *
 * Changing their commands breaks running workflows. test/workflows/replay.test.ts replays recorded histories to catch
 * this.
 */
import { sleep, workflowInfo } from '@temporalio/workflow';
import type { Progress, Wait } from './contract.ts';

/** Starts the next run with `continueAsNew`, which never returns. */
type ContinueAsNew = () => Promise<never>;

/** The lower bound for delays, so that a run never spins because a delay was rounded down. */
export const minWaitMs = 1_000;

/** Returns when a delay that starts now will end. */
export function timeAfter(waitMs: number): Date {
  return new Date(Date.now() + Math.max(minWaitMs, waitMs));
}

/**
 * Calls `check` until its result isn't `wait`, and sleeps in between for as long as the result says. Returns the final
 * result. `check` receives the number of the call. `describeWait` returns the summary of the timer, and may also show
 * the wait elsewhere.
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

/** Calls `step` with the number of the call until it returns `done`. */
export async function repeatWhileMore(step: (count: number) => Promise<Progress>, continueRun: ContinueAsNew): Promise<void> {
  for (let count = 1; (await step(count)).kind === 'more'; count += 1) {
    if (workflowInfo().continueAsNewSuggested) await continueRun();
  }
}

function isWait(result: { readonly kind: string }): result is Wait {
  return result.kind === 'wait';
}
