/**
 * Retries activities in the workflow rather than in Temporal, so that the run can show that an attempt failed, why it
 * failed, and when the next one starts. This takes no additional history events unless an attempt fails.
 */
import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  defineSignal,
  type LocalActivityOptions,
  patched,
  type RetryPolicy,
  setHandler,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow';
import { retriedByWorkflow, wakeSignal } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { timeAfter } from './poll-until.ts';
import { type RunStatus, type ShowStatus, toAdvice } from './run-status.ts';

/**
 * Lets Temporal repeat an attempt only if the worker has turned it away (`share-slots.ts`). Such an attempt has done
 * nothing, so it takes no history events, and the workflow and the operators don't see it as a failure. All other
 * failures are retried by the workflow. `retriedByWorkflow` tells the worker to mark them as not retryable, and the
 * other types are reported by the server or the SDK.
 *
 * Workers of older versions don't mark their failures. If such a worker gets the activity, e.g. after you have gone
 * back to an older version, Temporal retries these failures as well.
 */
export const retryTurnedAway = {
  initialInterval: '1 second',
  backoffCoefficient: 2,
  maximumInterval: '10 minutes',
  nonRetryableErrorTypes: [retriedByWorkflow, 'TemporalTimeout:StartToClose', 'TemporalTimeout:Heartbeat', 'WorkerShutdown'],
} as const satisfies RetryPolicy;

export interface RetryOptions {
  readonly firstMs: number;
  readonly maxMs: number;
  /** Unlimited by default. */
  readonly maxTries?: number;
}

/**
 * The longest delay between attempts. It's short enough that work resumes soon after an outage, and long enough not to
 * overload a dependency that's failing.
 */
const longestWaitMs = 10 * 60_000;

/**
 * Retry options for activities that only depend on the database and Temporal. Both recover on their own, so the first
 * delay is short.
 */
export const recovering: RetryOptions = { firstMs: 1_000, maxMs: longestWaitMs };

/**
 * Options for local activities, which Temporal itself retries. It never gives up, because only the database can fail
 * here, and it will recover.
 */
export const localOptions = {
  startToCloseTimeout: '1 minute',
  retry: { initialInterval: recovering.firstMs, backoffCoefficient: 2, maximumInterval: recovering.maxMs },
  // If the delay before a retry is longer than this, Temporal uses a timer on the server, so that it doesn't occupy the
  // worker.
  localRetryThreshold: '5 seconds',
} as const satisfies LocalActivityOptions;

/**
 * Retry options for activities that also depend on a vendor. The first delay is longer than usual, because each failed
 * attempt costs a request.
 */
export const vendorRecovering: RetryOptions = { firstMs: 60_000, maxMs: longestWaitMs };

export interface RetriedWork {
  readonly facts?: Omit<RunStatus, 'state'>;
  readonly lines?: readonly string[];
  readonly advice?: string;
}

type Try<Result> = (count: number) => Promise<Result>;

export type Retry = <Result>(start: Try<Result>, options: RetryOptions, work?: RetriedWork) => Promise<Result>;

/**
 * Counts the wake signals, so that a wait can end early when the count changes. If other signals should have the same
 * effect, their handlers can call `wake`.
 */
export function createWakeCounter() {
  let count = 0;
  const wake = (): void => {
    count += 1;
  };
  setHandler(defineSignal(wakeSignal), wake, { description: note('wakeSignal') });
  return { wake, count: (): number => count };
}

/** Creates a function that retries until an attempt succeeds. Throws the last failure after `maxTries` attempts. */
export function createRetries(show: ShowStatus, continueRun: () => Promise<never>, countSignals = createWakeCounter().count): Retry {
  return async (start, { firstMs, maxMs, maxTries }, { facts = {}, lines = [], advice } = {}) => {
    for (let count = 1; ; count += 1) {
      try {
        return await start(count);
      } catch (error) {
        const code = toFailureCode(error);
        if (count === maxTries) throw error;
        const signalsSeen = countSignals();
        const waitMs = toDelayMs(count, { firstMs, maxMs });
        const nextAt = timeAfter(waitMs);
        const next = formatClockTime(nextAt);
        const failed = maxTries === undefined ? note('tryFailed', count, code, next) : note('tryFailedOf', count, maxTries, code, next);
        const status = { ...facts, state: 'retrying', tries: count, code } as const;
        const again = note(maxTries === undefined ? 'triesAgain' : 'triesAgainOf');
        show({ ...status, next_at: nextAt.toISOString() }, [...lines, failed, advice ?? toAdvice(code), again]);
        await condition(() => countSignals() !== signalsSeen, waitMs, { summary: note('failedTry', count, code, next) });
        if (workflowInfo().continueAsNewSuggested) await continueRun();
        show(status, [...lines, note('tryRuns', count + 1, code), advice ?? toAdvice(code)]);
      }
    }
  };
}

/** Returns how long to wait after this many failures. We use the same formula as Temporal's own retry policies. */
export function toDelayMs(failures: number, { firstMs, maxMs }: RetryOptions): number {
  return Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30));
}

/**
 * Returns the error code if the workflow can retry this failure, and otherwise rethrows the error. Cancellations can't
 * be retried, and neither can failures in old histories, which Temporal has already retried.
 */
export function toFailureCode(error: unknown): string {
  const code = findFailureCode(error);
  if (code === null || !patched('visible-retries')) throw error;
  return code;
}

/** Returns the error code of a failed activity, or null if the run was cancelled or something else went wrong. */
export function findFailureCode(error: unknown): string | null {
  if (!(error instanceof ActivityFailure) || CancellationScope.current().consideredCancelled) return null;
  const { cause } = error;
  if (cause instanceof ApplicationFailure) return cause.type ?? 'unknown';
  return cause instanceof TimeoutFailure ? 'timed_out' : 'worker_stopped';
}
