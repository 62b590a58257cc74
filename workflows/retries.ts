/**
 * Retries of activities by the workflow instead of by Temporal: so a run shows that a try failed, why, and when the next one is. Costs events
 * only when a try fails.
 */
import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  defineSignal,
  patched,
  type RetryPolicy,
  setHandler,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow';
import { wakeSignal } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { timeAfter } from './poll-until.ts';
import { type RunStatus, type ShowStatus, toAdvice } from './run-status.ts';

/** Temporal does not retry these activities. Their first delay is the one that Temporal would use. */
export const singleTry = { maximumAttempts: 1 } as const;

export interface RetryOptions {
  readonly firstMs: number;
  readonly maxMs: number;
  /** Unlimited without it. */
  readonly maxTries?: number;
}

/** After an outage the next try comes within this time: nobody waits for hours, and a failing dependency is not stressed. */
const longestWaitMs = 10 * 60_000;

/** For activities in which only the database or Temporal can fail: both recover. */
export const recovering: RetryOptions = { firstMs: 1_000, maxMs: longestWaitMs };

/** The same for local activities, which Temporal retries. */
export const recoveringLocally = {
  initialInterval: recovering.firstMs,
  backoffCoefficient: 2,
  maximumInterval: recovering.maxMs,
} satisfies RetryPolicy;

/** For activities in which a vendor can fail too: a first try that fails costs a request. */
export const vendorRecovering: RetryOptions = { firstMs: 60_000, maxMs: longestWaitMs };

/** What a run shows of its work while it retries. */
export interface RetriedWork {
  readonly facts?: Omit<RunStatus, 'state'>;
  readonly lines?: readonly string[];
  readonly advice?: string;
}

/** Starts the try of this number. */
type Try<Result> = (count: number) => Promise<Result>;

export type Retry = <Result>(start: Try<Result>, options: RetryOptions, work?: RetriedWork) => Promise<Result>;

/** Counts the signals that end waits. */
export function countWakeSignals(): () => number {
  let count = 0;
  const wake = (): void => {
    count += 1;
  };
  setHandler(defineSignal(wakeSignal), wake, { description: note('wakeSignal') });
  return () => count;
}

/** Tries until a try succeeds; the last failure of `maxTries` is thrown. */
export function createRetries(show: ShowStatus, continueRun: () => Promise<never>, signals: () => number = countWakeSignals()): Retry {
  return async (start, { firstMs, maxMs, maxTries }, { facts = {}, lines = [], advice } = {}) => {
    for (let count = 1; ; count += 1) {
      try {
        return await start(count);
      } catch (error) {
        const code = toFailureCode(error);
        if (count === maxTries) throw error;
        const signalsSeen = signals();
        const waitMs = toDelayMs(count, { firstMs, maxMs });
        const nextAt = timeAfter(waitMs);
        const next = formatClockTime(nextAt);
        const failed = maxTries === undefined ? note('tryFailed', count, code, next) : note('tryFailedOf', count, maxTries, code, next);
        const status = { ...facts, state: 'retrying', tries: count, code } as const;
        const again = note(maxTries === undefined ? 'triesAgain' : 'triesAgainOf');
        show({ ...status, next_at: nextAt.toISOString() }, [...lines, failed, advice ?? toAdvice(code), again]);
        await condition(() => signals() !== signalsSeen, waitMs, { summary: note('failedTry', count, code, next) });
        if (workflowInfo().continueAsNewSuggested) await continueRun();
        show(status, [...lines, note('tryRuns', count + 1, code), advice ?? toAdvice(code)]);
      }
    }
  };
}

/** The delay after the failure of this number, as in Temporal's retry policies. */
export function toDelayMs(failures: number, { firstMs, maxMs }: RetryOptions): number {
  return Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30));
}

/** Throws what no retry follows: a cancellation, and failures in histories of versions in which Temporal retried. */
export function toFailureCode(error: unknown): string {
  const code = findFailureCode(error);
  if (code === null || !patched('visible-retries')) throw error;
  return code;
}

/** The code of a failed activity. Null for other errors, and when the run is cancelled. */
export function findFailureCode(error: unknown): string | null {
  if (!(error instanceof ActivityFailure) || CancellationScope.current().consideredCancelled) return null;
  const { cause } = error;
  if (cause instanceof ApplicationFailure) return cause.type ?? 'unknown';
  return cause instanceof TimeoutFailure ? 'timed_out' : 'worker_stopped';
}
