/**
 * Repeats work in the background. It makes one run at a time, at an interval or when woken, with growing delays while
 * it fails.
 *
 * If the loop is woken during a run, another run follows. Owners can check `isFailing` to ignore wakes during an
 * outage, because they would defeat the backoff.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type BackoffPolicy, backoffMs } from './backoff.ts';

/**
 * When to run next. A number is a delay in milliseconds, and `idle` waits for the interval. An earlier wake takes
 * precedence.
 */
export type NextRun = 'again' | 'idle' | number;

export interface BackgroundLoopOptions {
  /** Does one run. `stop` aborts the signal. */
  readonly run: (signal: AbortSignal) => Promise<NextRun>;
  /** The delay after an idle run, measured from its end. If this is null, an idle loop only runs when it's woken. */
  readonly intervalMs: number | null;
  /** The delays after failed runs. Defaults to the interval. */
  readonly backoff?: BackoffPolicy;
  /** Called once per outage, so that it can be logged. After `stop`, neither this nor any other callback is called. */
  readonly onFirstFailure?: (error: unknown) => void;
  /** Called after each failed run with the number of consecutive failures, after `onFirstFailure`. */
  readonly onFailure?: (error: unknown, failures: number) => void;
  /** Called after the first successful run that follows a failure. */
  readonly onRecovered?: () => void;
  /**
   * As in `node:timers/promises`. If this is false, which is the default, the process may exit while the loop waits.
   */
  readonly ref?: boolean;
}

export interface BackgroundLoop {
  /** Begins a run immediately. You can call this again after `stop`. */
  start(): void;
  /**
   * Runs after `delayMs`, or earlier if a run is already due earlier. Also starts a loop that wasn't started. Does
   * nothing after `stop`.
   */
  wake(delayMs?: number): void;
  /**
   * Begins a run immediately, or joins the one in progress. Rejects with the run's error, which is also passed to the
   * callbacks. After `stop`, this resolves without a run. If the loop wasn't started, the run isn't repeated.
   */
  runNow(): Promise<void>;
  /** Resolves when no run is in progress. Never rejects. */
  idle(): Promise<void>;
  /** True from a failed run until the next successful one. */
  readonly isFailing: boolean;
  /** Begins no further run, aborts the signal of the run in progress, and resolves when that run has ended. */
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
  /** Keeps a run from becoming part of the trace of the call that woke the loop. */
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
    // We set this before the run begins, so that anything it calls synchronously sees that a run is in progress.
    current ??= inOwnContext(() => Promise.resolve(stopping.signal).then(runOnce));
    return current;
  };

  const runInBackground = (): void => {
    runNow().catch(() => undefined); // The callbacks have reported the error.
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
      // Otherwise a run is already due earlier, either by the timer or after the run in progress.
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
