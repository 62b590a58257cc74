import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Collects callbacks during a turn of the event loop and runs them together at its end. We first read all requests and
 * responses that arrive in the same turn, and handle them afterwards, because reading and handling evict each other's
 * code from the CPU caches. This also lets us write all of the output at once.
 */
export interface TurnBatch {
  /** Runs the callback at the end of this turn of the event loop, together with all other callbacks of the turn. */
  run(callback: () => void): void;
  /** Runs the callback after this turn's batch, once all microtasks of the batch have run. */
  runAfter(callback: () => void): void;
}

export function createTurnBatch(): TurnBatch {
  let batch: (() => void)[] = [];
  let following: (() => void)[] = [];
  let isScheduled = false;
  let isRunning = false;
  /**
   * Runs the batch outside of any call's async context. Otherwise it would become part of the trace of the call that
   * happened to schedule it.
   */
  const inOwnContext = AsyncLocalStorage.snapshot();

  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    inOwnContext(setImmediate, runBatch);
  };

  const runBatch = (): void => {
    isScheduled = false;
    isRunning = true;
    // If a microtask calls `nextTick`, the callback runs once there are no more microtasks. So `runFollowing` runs
    // after everything that the batch has started.
    queueMicrotask(() => process.nextTick(runFollowing));
    const callbacks = batch;
    batch = [];
    for (const callback of callbacks) callback();
  };

  const runFollowing = (): void => {
    isRunning = false;
    const callbacks = following;
    following = [];
    for (const callback of callbacks) callback();
  };

  return {
    run(callback) {
      batch.push(callback);
      schedule();
    },
    runAfter(callback) {
      following.push(callback);
      if (!isRunning) schedule();
    },
  };
}
