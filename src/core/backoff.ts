import { setTimeout as sleep } from 'node:timers/promises';

export interface BackoffPolicy {
  readonly initialMs: number;
  /** Each delay is the previous one multiplied by this factor. Defaults to 2. */
  readonly factor?: number;
  readonly maxMs: number;
  /**
   * The maximum share of the delay that we add or subtract at random, so that processes don't retry in lockstep. For
   * example, 0.1 results in 90 % to 110 % of the delay.
   */
  readonly jitter?: number;
}

export interface RetryOptions {
  /**
   * The delay before each retry, in milliseconds. When there are no more delays, the last error is thrown. See
   * `backoffDelays`.
   */
  readonly delays: Iterable<number>;
  /** Aborting the signal ends the wait between two attempts, and `retry` throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** Returns true if another attempt may succeed after this error. If you don't set this, we retry all errors. */
  readonly isRetryable?: (error: unknown) => boolean;
  readonly onRetry?: (error: unknown, delayMs: number) => void;
}

const maxExponent = 60;

/** Returns how many milliseconds to wait after this many consecutive failures, including the latest one. */
export function backoffMs(failures: number, { initialMs, factor = 2, maxMs, jitter = 0 }: BackoffPolicy): number {
  const delayMs = Math.min(maxMs, initialMs * factor ** Math.min(failures - 1, maxExponent));
  return delayMs * (1 + jitter * (2 * Math.random() - 1));
}

export function* backoffDelays(policy: BackoffPolicy, maxRetries = Number.POSITIVE_INFINITY): Generator<number> {
  for (let failures = 1; failures <= maxRetries; failures += 1) yield backoffMs(failures, policy);
}

/** Calls `work` until it succeeds, there are no more delays, or it throws an error that can't be retried. */
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
      // If the signal is aborted, the sleep rejects. Ignore that here, because the next iteration throws the signal's
      // reason.
      if (delayMs > 0) await sleep(delayMs, undefined, signal && { signal }).catch(() => undefined);
    }
  }
}
