/**
 * Runs a task in the background, either at an interval or whenever somebody wakes the loop. There's never more than one
 * run in progress, and while runs keep failing, the delays between them grow. If somebody wakes the loop during a run,
 * another run follows.
 *
 * During an outage, callers should check `isFailing` and not wake the loop, because that would defeat the backoff.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type BackoffPolicy, backoffMs } from './backoff.ts';

/**
 * Says when the next run is due. `again` means immediately, `idle` means after the interval, and a number is a delay in
 * milliseconds. Waking the loop can start the run earlier.
 */
export type NextRun = 'again' | 'idle' | number;

export interface BackgroundLoopOptions {
  /** Does the work of one run. `signal` is aborted when the loop is stopped. */
  readonly run: (signal: AbortSignal) => Promise<NextRun>;
  /** The delay after an idle run. If this is null, the loop sleeps until somebody wakes it. */
  readonly intervalMs: number | null;
  /** The delays after failed runs. If this isn't set, failed runs are repeated at the interval. */
  readonly backoff?: BackoffPolicy;
  /**
   * Called for the first failure of an outage, so that we log it once. None of the callbacks is called after `stop`.
   */
  readonly onFirstFailure?: (error: unknown) => void;
  /**
   * Called after each failed run with the number of consecutive failures. After the first failure, `onFirstFailure` is
   * called before this.
   */
  readonly onFailure?: (error: unknown, failures: number) => void;
  /** Called after the first success that follows a failure. */
  readonly onRecovered?: () => void;
  /**
   * True if the process should stay alive while the loop is waiting, like the option `ref` of `node:timers/promises`.
   */
  readonly ref?: boolean;
}

export interface BackgroundLoop {
  /** Starts with an immediate run. You can also start the loop again after `stop`. */
  start(): void;
  /**
   * Makes the loop run in `delayMs`, or earlier if a run is already due before that. If the loop hasn't been started,
   * this starts it. Does nothing after `stop`.
   */
  wake(delayMs?: number): void;
  /**
   * Starts a run immediately, or joins the one in progress. If the run fails, the callbacks are called first, and then
   * this rejects with the error. It doesn't start the loop, so if the loop isn't started, there are no further runs.
   * Does nothing after `stop`.
   */
  runNow(): Promise<void>;
  /** Resolves when no run is in progress. Never rejects. */
  idle(): Promise<void>;
  readonly isFailing: boolean;
  /** Prevents further runs, aborts the signal of the run in progress, and resolves when that run has ended. */
  stop(): Promise<void>;
}

export function createBackgroundLoop(options: BackgroundLoopOptions): BackgroundLoop {
  const { run, intervalMs, backoff, ref = false } = options;
  let stopping = new AbortController();
  let isRepeating = false;
  let current: Promise<void> | null = null;
  let failures = 0;
  let timer: NodeJS.Timeout | undefined;
  /** When the next run is due. We use `performance.now()` because it isn't affected by changes to the system time. */
  let dueAt = Number.POSITIVE_INFINITY;
  /**
   * Creates timers outside of the current async context, so that a run isn't traced as part of the call that woke the
   * loop.
   */
  const inOwnContext = AsyncLocalStorage.snapshot();

  const schedule = (delayMs: number | null): void => {
    if (!isRepeating) return;
    if (delayMs !== null) dueAt = Math.min(dueAt, performance.now() + delayMs);
    clearTimeout(timer);
    if (current || dueAt === Number.POSITIVE_INFINITY) return;
    timer = inOwnContext(() => setTimeout(runInBackground, Math.max(0, dueAt - performance.now())));
    if (!ref) timer.unref();
  };

  const runNow = (): Promise<void> => {
    if (stopping.signal.aborted) return Promise.resolve();
    // `runOnce` starts in a microtask, so that `current` is already set for anything that it calls synchronously.
    current ??= inOwnContext(() => Promise.resolve(stopping.signal).then(runOnce));
    return current;
  };

  const runInBackground = (): void => {
    runNow().catch(() => undefined); // The callbacks have already reported the error.
  };

  const runOnce = async (signal: AbortSignal): Promise<void> => {
    clearTimeout(timer);
    dueAt = Number.POSITIVE_INFINITY;
    let delayMs: number | null = null;
    let isRecovered = false;
    try {
      const next = await run(signal);
      isRecovered = failures > 0;
      failures = 0;
      delayMs = next === 'again' ? 0 : next === 'idle' ? intervalMs : next;
    } catch (error) {
      failures += 1;
      delayMs = backoff ? backoffMs(failures, backoff) : intervalMs;
      if (!signal.aborted) {
        if (failures === 1) options.onFirstFailure?.(error);
        options.onFailure?.(error, failures);
      }
      throw error;
    } finally {
      current = null;
      schedule(delayMs);
    }
    if (isRecovered && !signal.aborted) options.onRecovered?.();
  };

  return {
    start() {
      if (stopping.signal.aborted) stopping = new AbortController();
      isRepeating = true;
      if (current) schedule(0);
      else runInBackground();
    },
    wake(delayMs = 0) {
      if (stopping.signal.aborted) return;
      isRepeating = true;
      if (performance.now() + delayMs < dueAt) schedule(delayMs);
    },
    runNow,
    async idle() {
      await current?.catch(() => undefined);
    },
    get isFailing() {
      return failures > 0;
    },
    async stop() {
      isRepeating = false;
      dueAt = Number.POSITIVE_INFINITY;
      clearTimeout(timer);
      stopping.abort();
      await current?.catch(() => undefined);
    },
  };
}
