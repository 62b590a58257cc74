/**
 * Decides whether a write can run synchronously on the event loop. Writing a few kilobytes to the page cache takes
 * microseconds, much less than handing the write to the thread pool and back. On a slow disk, however, it blocks the
 * whole process. So synchronous writes have a time budget: a tenth of the elapsed time, in bursts of up to 50 ms. If
 * the disk stalls, a single write exhausts the budget, and writes are asynchronous until it has recovered.
 *
 * A time limit per write wouldn't work, because on a busy machine the scheduler can interrupt even a fast write for
 * milliseconds.
 */

const share = 0.1;
const maxDebtMs = 50;
/** Larger writes take so long that it's worth moving them to the thread pool. */
const maxBytes = 256 * 1_024;

export function createSyncWrites(now: () => number = () => performance.now()) {
  /**
   * How far synchronous writes have exceeded their time budget, in milliseconds. The debt shrinks over time. If it gets
   * too high, we write asynchronously until it's paid off.
   */
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
    /** Charges the duration of a synchronous write to the budget, even if it throws. */
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
