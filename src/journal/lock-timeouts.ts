/**
 * Decides how long a batch waits for the locks of its projects. Somebody else may hold a lock for minutes, e.g. an
 * erasure, or just for as long as another process needs to store a batch.
 */

/**
 * A batch of a reader (`set-aside.ts`) only contains the calls of one project. It's `locked` if the project was locked
 * when the reader last tried to store some of its calls, or if the reader hasn't tried yet. Otherwise it's `free`.
 */
export type ReaderLane = 'locked' | 'free';

/** Batches that the drain itself stores are `shared` by all projects that aren't set aside. */
export type Lane = 'shared' | ReaderLane;

/**
 * While a shared batch waits for a lock, all projects wait. While a free one waits, reports about all projects may have
 * to wait. The lock may just belong to a batch of another process, so we wait for several times as long as our own
 * batches take. They sometimes wait for locks as well, so without an upper bound, each wait could make the next one
 * longer. A free batch never waits for longer than a locked one.
 */
const shortTimeout = { batches: 4, minMs: 1_000, maxMs: 10_000 };
/**
 * A batch of a locked project holds up nobody else, so it can wait longer, and so can a batch of recovery. But when a
 * process stops, it waits for these batches, so this has to be far below the statement timeout of 30 seconds.
 */
const longTimeoutMs = 5_000;
/** With each batch, we reduce the duration of the slowest one by a tenth, so that it's forgotten after a while. */
const slowestBatchDecay = 0.9;

/** `setAside` is undefined in recovery, which doesn't set projects aside. */
export function createLockTimeouts(setAside: { readonly isFull: () => boolean } | undefined) {
  /** The time that the slowest recent shared batch took, not counting the wait for its locks. */
  let slowestBatchMs = 0;
  return {
    /** Returns the timeout in milliseconds, or null if the batch should wait until the statement timeout. */
    timeoutOf(lane: Lane): number | null {
      if (lane === 'locked' || !setAside) return longTimeoutMs;
      if (lane === 'shared' && setAside.isFull()) return null;
      const { batches, minMs, maxMs } = shortTimeout;
      const waitMs = Math.max(Math.round(batches * slowestBatchMs), minMs);
      return Math.min(waitMs, lane === 'free' ? longTimeoutMs : maxMs);
    },
    /** Call this with the time that a shared batch took once it had its locks. */
    addBatch(durationMs: number): void {
      slowestBatchMs = Math.max(durationMs, slowestBatchMs * slowestBatchDecay);
    },
  };
}
