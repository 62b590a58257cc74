/** Growing delays between retries. */
import { setTimeout as sleep } from 'node:timers/promises';

export interface BackoffPolicy {
  /** Delay after the first failure, in milliseconds. */
  readonly initialMs: number;
  /** How many times longer each further delay is. */
  readonly factor?: number;
  readonly maxMs: number;
  /** Random share added or subtracted, so that processes do not retry in step: 0.1 gives 90 % to 110 % of the delay. */
  readonly jitter?: number;
}

export interface RetryOptions {
  /** Delay before each retry, in milliseconds; when they run out, the last error is thrown. See `backoffDelays`. */
  readonly delays: Iterable<number>;
  /** Cuts the delay between two attempts short; the signal's reason is thrown then. */
  readonly signal?: AbortSignal;
  /** Errors that another attempt may not meet again; all by default. */
  readonly isRetryable?: (error: unknown) => boolean;
  /** Called before each delay. */
  readonly onRetry?: (error: unknown, delayMs: number) => void;
}

const maxExponent = 60;

/** Delay in milliseconds after so many failures in a row, counted from 1. */
export function backoffMs(failures: number, { initialMs, factor = 2, maxMs, jitter = 0 }: BackoffPolicy): number {
  const delayMs = Math.min(maxMs, initialMs * factor ** Math.min(failures - 1, maxExponent));
  return delayMs * (1 + jitter * (2 * Math.random() - 1));
}

/** The delays of a policy: endless, or as many as `maxRetries`. */
export function* backoffDelays(policy: BackoffPolicy, maxRetries = Number.POSITIVE_INFINITY): Generator<number> {
  for (let failures = 1; failures <= maxRetries; failures += 1) yield backoffMs(failures, policy);
}

/** Resolves with the first result of `work`, which is called again after each failure that may be retried. */
export async function retry<Result>(
  work: () => Promise<Result>,
  { delays, signal, isRetryable = () => true, onRetry }: RetryOptions,
): Promise<Result> {
  const remaining = delays[Symbol.iterator]();
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      if (signal?.aborted || !isRetryable(error)) throw error;
      const { value: delayMs, done } = remaining.next();
      if (done) throw error;
      onRetry?.(error, delayMs);
      // Rejects when aborted; the loop then throws the signal's own reason.
      if (delayMs > 0) await sleep(delayMs, undefined, signal && { signal }).catch(() => undefined);
    }
  }
}
