/** Tells whether the event loop is so busy that we should postpone work that can wait. */

/** Above this share of its time, the event loop counts as busy, because a few more calls could already saturate it. */
const busyShare = 0.5;
/** We measure over at least this long, because shorter measurements vary a lot. */
const windowMs = 100;

interface Utilization {
  readonly idle: number;
  readonly active: number;
  readonly utilization: number;
}

/**
 * Returns a function that returns true if the event loop was busy lately. It doesn't need a timer, because it only
 * measures when it's called. If nobody has called it for a while, the answer is about all the time since then.
 */
export function createIsBusy(
  now: () => number = () => performance.now(),
  measure: (current?: Utilization, previous?: Utilization) => Utilization = performance.eventLoopUtilization,
): () => boolean {
  let previous = measure();
  let measuredAt = now();
  let isBusy = false;
  return () => {
    const time = now();
    if (time - measuredAt >= windowMs) {
      const current = measure();
      isBusy = measure(current, previous).utilization > busyShare;
      previous = current;
      measuredAt = time;
    }
    return isBusy;
  };
}
