/**
 * Retries activities in the workflow instead of in Temporal, so that a run can show that an attempt failed, why, and
 * when the next one starts. This only costs events if an attempt fails.
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

/** Disables retries by Temporal. The first delay of our own retries is the same as Temporal's. */
export const singleTry = { maximumAttempts: 1 } as const;

export interface RetryOptions {
  readonly firstMs: number;
  readonly maxMs: number;
  /** Unlimited if this isn't set. */
  readonly maxTries?: number;
}

/**
 * After an outage, the next attempt starts within this time. It's short enough that nobody waits for hours, and long
 * enough not to stress a failing dependency.
 */
const longestWaitMs = 10 * 60_000;

/** For activities in which only the database or Temporal can fail, because both will recover. */
export const recovering: RetryOptions = { firstMs: 1_000, maxMs: longestWaitMs };

/** The same policy for local activities, which Temporal retries. */
export const recoveringLocally = {
  initialInterval: recovering.firstMs,
  backoffCoefficient: 2,
  maximumInterval: recovering.maxMs,
} satisfies RetryPolicy;

/**
 * For activities in which a vendor can fail, too. The first delay is longer, because each failed attempt costs a
 * request.
 */
export const vendorRecovering: RetryOptions = { firstMs: 60_000, maxMs: longestWaitMs };

/** What a run shows about its work during a retry. */
export interface RetriedWork {
  readonly facts?: Omit<RunStatus, 'state'>;
  readonly lines?: readonly string[];
  readonly advice?: string;
}

/** Starts an attempt, given its number. */
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

/** Retries until an attempt succeeds. After `maxTries` it throws the last failure. */
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

/** Returns the delay after this many failures, using the same formula as Temporal's retry policies. */
export function toDelayMs(failures: number, { firstMs, maxMs }: RetryOptions): number {
  return Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30));
}

/**
 * Returns the code of a failure that we retry. Rethrows everything else, which includes cancellations, and failures in
 * histories of versions that let Temporal retry.
 */
export function toFailureCode(error: unknown): string {
  const code = findFailureCode(error);
  if (code === null || !patched('visible-retries')) throw error;
  return code;
}

/** Returns the code of a failed activity. Returns null for other errors, and if the run is cancelled. */
export function findFailureCode(error: unknown): string | null {
  if (!(error instanceof ActivityFailure) || CancellationScope.current().consideredCancelled) return null;
  const { cause } = error;
  if (cause instanceof ApplicationFailure) return cause.type ?? 'unknown';
  return cause instanceof TimeoutFailure ? 'timed_out' : 'worker_stopped';
}
