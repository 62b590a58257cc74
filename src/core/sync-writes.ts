/**
 * Decides whether a write may run on the event loop. A synchronous write of a few kilobytes to the page cache takes
 * microseconds, which is a fraction of what it costs to hand it to the thread pool and back. But on a slow disk it
 * blocks the whole process, so these writes have a budget of a tenth of the time, and 50 ms at once. If the disk
 * stalls, a single write exceeds the budget, and we don't allow another one until it has recovered.
 *
 * We use a budget instead of a limit for each write, because the scheduler of a busy machine may interrupt even a fast
 * write for milliseconds.
 */

const share = 0.1;
const maxDebtMs = 50;
/** For larger writes it's worth using a thread. */
const maxBytes = 256 * 1_024;

/** `now` returns milliseconds. */
export function createSyncWrites(now: () => number = () => performance.now()) {
  /** The time of synchronous writes that hasn't been covered by their share yet. */
  let debtMs = 0;
  let countedAt = now();
  let isPaused = false;

  const payDebt = (at: number): void => {
    debtMs = Math.max(0, debtMs - share * (at - countedAt));
    countedAt = at;
  };

  return {
    allows(bytes: number): boolean {
      if (bytes > maxBytes) return false;
      if (isPaused) {
        payDebt(now());
        isPaused = debtMs > 0;
      }
      return !isPaused;
    },
    /** Runs a synchronous write and measures it, even if it throws. */
    measure<Result>(write: () => Result): Result {
      const startedAt = now();
      try {
        return write();
      } finally {
        const endedAt = now();
        payDebt(startedAt);
        countedAt = endedAt;
        debtMs += endedAt - startedAt;
        isPaused = debtMs > maxDebtMs;
      }
    },
  };
}
