/** Tells whether the event loop is so busy that we should postpone work that can wait. */

/**
 * If the event loop spends more than this share of its time on work, we consider it busy. The threshold is low because
 * a few more calls could already saturate the loop.
 */
const busyShare = 0.4;
/** We measure over at least this long, because shorter measurements vary a lot. */
const windowMs = 100;

export interface IsBusyOptions {
  /**
   * Returns how long the event loop has spent so far on the work that we'd postpone. This time doesn't count towards
   * the load.
   */
  readonly ownMs?: () => number;
  readonly now?: () => number;
  /** Returns how long the event loop has been active so far, including the work that we'd postpone. */
  readonly activeMs?: () => number;
}

/**
 * Returns a function that returns true if the event loop was busy lately. It doesn't need a timer, because it only
 * measures when it's called. If nobody has called it for a while, the answer is about all the time since then.
 */
export function createIsBusy({
  ownMs = () => 0,
  now = () => performance.now(),
  activeMs = () => performance.eventLoopUtilization().active,
}: IsBusyOptions = {}): () => boolean {
  const othersMs = (): number => activeMs() - ownMs();
  let measured = { at: now(), othersMs: othersMs() };
  let isBusy = false;
  return () => {
    const at = now();
    if (at - measured.at >= windowMs) {
      const current = { at, othersMs: othersMs() };
      isBusy = current.othersMs - measured.othersMs > busyShare * (at - measured.at);
      measured = current;
    }
    return isBusy;
  };
}
