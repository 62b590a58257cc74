/**
 * Runs a piece of work in the background, either at an interval or whenever it's woken. Only one run is in progress at
 * a time, and the delays grow while runs keep failing.
 *
 * If the loop is woken during a run, another run follows. Owners can check `isFailing` and skip the wake-up during an
 * outage, because waking the loop would defeat its backoff.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type BackoffPolicy, backoffMs } from './backoff.ts';

/**
 * When to run next. A number is a delay in milliseconds, `again` means immediately, and `idle` means after the
 * interval. A wake-up can start the next run earlier.
 */
export type NextRun = 'again' | 'idle' | number;

export interface BackgroundLoopOptions {
  /** Does one run's work. The signal is aborted by `stop`. */
  readonly run: (signal: AbortSignal) => Promise<NextRun>;
  /** The delay after an idle run, measured from its end. If this is null, an idle loop only runs when it's woken. */
  readonly intervalMs: number | null;
  /** Delays after failed runs. Defaults to the interval. */
  readonly backoff?: BackoffPolicy;
  /** Called once per outage, so that it can be logged. After `stop`, neither this nor any other callback is called. */
  readonly onFirstFailure?: (error: unknown) => void;
  /** Called after each failed run with the number of consecutive failures, after `onFirstFailure`. */
  readonly onFailure?: (error: unknown, failures: number) => void;
  /** Called after the first successful run that follows a failure. */
  readonly onRecovered?: () => void;
  /** Set this to keep the process alive while the loop is waiting, as in `node:timers/promises`. */
  readonly ref?: boolean;
}

export interface BackgroundLoop {
  /** Starts with an immediate run. Also works after `stop`. */
  start(): void;
  /**
   * Schedules a run in `delayMs`, unless one is already due earlier. This also starts a loop that hasn't been started.
   * Does nothing after `stop`.
   */
  wake(delayMs?: number): void;
  /**
   * Begins a run immediately, or joins the one in progress. If the run fails, this rejects with its error, and the
   * callbacks are called too. If the loop hasn't been started, the run isn't repeated. After `stop`, this resolves
   * without doing anything.
   */
  runNow(): Promise<void>;
  /** Resolves when no run is in progress. Never rejects. */
  idle(): Promise<void>;
  /** True after a failed run, until one succeeds. */
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
    // We set this before the run begins, so that anything it calls synchronously sees that a run is in progress.
    current ??= inOwnContext(() => Promise.resolve(stopping.signal).then(runOnce));
    return current;
  };

  const runInBackground = (): void => {
    runNow().catch(() => undefined); // reported by the callbacks
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
      // Only reschedule if this makes the next run earlier.
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
