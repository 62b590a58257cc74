/** Tells how busy the event loop is, so that we can postpone work that can wait. */

/** How much of its time the event loop spends on work: at most 40 %, at most 80 %, or more. */
export type Load = 'light' | 'busy' | 'saturated';

/**
 * If the event loop spends more than this share of its time on work, we consider it busy. The threshold is low because
 * a few more calls could already saturate the loop.
 */
const busyShare = 0.4;
/** Above this, a stall of a tenth of a second takes more than half a second to work off. */
const saturatedShare = 0.8;
/** We measure over at least this long, because shorter measurements vary a lot. */
const windowMs = 100;

export interface LoadOptions {
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
 * Returns a function that tells how busy the event loop was lately. It doesn't need a timer, because it only measures
 * when it's called. If nobody has called it for a while, the answer is about all the time since then.
 */
export function createLoadMeter({
  ownMs = () => 0,
  now = () => performance.now(),
  activeMs = () => performance.eventLoopUtilization().active,
}: LoadOptions = {}): () => Load {
  const othersMs = (): number => activeMs() - ownMs();
  let measured = { at: now(), othersMs: othersMs() };
  let load: Load = 'light';
  return () => {
    const at = now();
    if (at - measured.at >= windowMs) {
      const current = { at, othersMs: othersMs() };
      const share = (current.othersMs - measured.othersMs) / (at - measured.at);
      load = share > saturatedShare ? 'saturated' : share > busyShare ? 'busy' : 'light';
      measured = current;
    }
    return load;
  };
}
