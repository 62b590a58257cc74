/**
 * Decides whether a write may run on the event loop. A synchronous write of a few kilobytes into the page cache takes microseconds, a fraction
 * of what handing it to the thread pool and back costs. On a slow disk it stops the whole process, so these writes have a budget: a tenth of
 * the time, and 50 ms at once. A stall exceeds it with a single write. No further one is then allowed until the budget is restored.
 *
 * A budget, rather than a limit for each write: on a busy machine the scheduler interrupts a fast write for milliseconds.
 */

const share = 0.1;
const maxDebtMs = 50;
/** A larger write is worth a thread. */
const maxBytes = 256 * 1_024;

/** `now` is in milliseconds. */
export function createSyncWrites(now: () => number = () => performance.now()) {
  /** Time of synchronous writes that their share has not covered yet. */
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
    /** Runs a synchronous write and measures it, whether or not it throws. */
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
