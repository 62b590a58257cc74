/**
 * Repeats work in the background: one run at a time, at an interval or when woken, with growing delays while it fails.
 *
 * A wake during a run is kept and followed by another run. `isFailing` lets the owner ignore wakes during an outage, when they would
 * defeat the backoff.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type BackoffPolicy, backoffMs } from './backoff.ts';

/** When to run next: at once, after the interval, or after so many milliseconds. An earlier wake takes precedence. */
export type NextRun = 'again' | 'idle' | number;

export interface BackgroundLoopOptions {
  /** One run. The signal is aborted by `stop`. */
  readonly run: (signal: AbortSignal) => Promise<NextRun>;
  /** Delay after an idle run, measured from its end. Null: an idle loop runs only when woken. */
  readonly intervalMs: number | null;
  /** Delays after failed runs; by default the interval. */
  readonly backoff?: BackoffPolicy;
  /** Called once per outage, for the log. Neither this nor the other callbacks are called after `stop`. */
  readonly onFirstFailure?: (error: unknown) => void;
  /** Called after each failed run with the number of failures in a row; after `onFirstFailure`. */
  readonly onFailure?: (error: unknown, failures: number) => void;
  /** Called after the first successful run after failures. */
  readonly onRecovered?: () => void;
  /** As in `node:timers/promises`: false, the default, lets the process exit while the loop waits. */
  readonly ref?: boolean;
}

export interface BackgroundLoop {
  /** Begins a run at once. May be called again after `stop`. */
  start(): void;
  /** Runs after `delayMs`, or earlier if a run is due earlier; also starts a loop that was not started. Does nothing after `stop`. */
  wake(delayMs?: number): void;
  /**
   * Begins a run at once, or joins the one in progress; rejects with the run's error, which the callbacks also report. Resolves without a
   * run after `stop`. A loop that was not started does not repeat the run.
   */
  runNow(): Promise<void>;
  /** Resolves when no run is in progress; never rejects. */
  idle(): Promise<void>;
  /** True from a failed run to the next successful one. */
  readonly isFailing: boolean;
  /** Begins no further run, aborts the signal of the run in progress and resolves when it has ended. */
  stop(): Promise<void>;
}

export function createBackgroundLoop(options: BackgroundLoopOptions): BackgroundLoop {
  const { run, intervalMs, backoff, ref = false } = options;
  let stopping = new AbortController();
  let isRepeating = false;
  let current: Promise<void> | null = null;
  let failures = 0;
  let timer: NodeJS.Timeout | undefined;
  /** Start of the next run by `performance.now()`, which no change of the system time affects. */
  let dueAt = Number.POSITIVE_INFINITY;
  /** A run belongs to no trace of the call that woke the loop. */
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
    // Set before the run begins: what the run calls synchronously must see that one is in progress.
    current ??= inOwnContext(() => Promise.resolve(stopping.signal).then(runOnce));
    return current;
  };

  const runInBackground = (): void => {
    runNow().catch(() => undefined); // The callbacks have reported it.
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
      // A run is due earlier: with a timer, or after the run in progress.
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
