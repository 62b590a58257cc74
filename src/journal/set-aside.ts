/**
 * If a project is locked for a long time, e.g. by an erasure, we set it aside so that the calls of other projects don't
 * have to wait. Such a project has a reader, which follows the drain through the journal and stores only the project's
 * own calls. It reads them from the segment files, so waiting calls don't use any memory. If the process dies, recovery
 * stores them like all others.
 *
 * A reader never overtakes the drain. When it has caught up, the drain takes the project back, but not right away,
 * because a project that was locked once is often locked again.
 *
 * Each reader reads the records of all projects, so only a few projects can be set aside at the same time.
 */
import { type BackgroundLoop, createBackgroundLoop, type NextRun } from '../core/background-loop.ts';
import { withTimeout } from '../core/time-limit.ts';
import { isLockTimeout } from '../db/locks.ts';
import { createQuerySlots } from '../db/query-slots.ts';
import type { ReaderLane } from './lock-timeouts.ts';
import { isBefore, type Position } from './position.ts';
import type { Segment } from './segment-writer.ts';

export interface SegmentPart {
  readonly segment: Segment;
  readonly start: number;
  readonly end: number;
}

export interface SetAsideOptions {
  readonly segments: () => readonly Segment[];
  /** The position of the drain. */
  readonly drained: () => Position;
  /** Everything that was written before this time (`performance.now()`) is before the position of the drain. */
  readonly drainedUntil: () => number;
  /** Stores the project's calls in the first window of `part`. Resolves to the offset at which to continue. */
  readonly storeWindowOf: (part: SegmentPart, projectId: string, lane: ReaderLane) => Promise<number>;
  /** Called after each window, even if it couldn't be stored, and when a reader starts to fail. */
  readonly onProgress: () => void;
  /** Called once per outage of a project, when a reader fails for the first time. The reader tries again by itself. */
  readonly onFirstFailure: (error: unknown, projectId: string) => void;
  readonly onRecovered: (projectId: string) => void;
  /**
   * The minimum time that a project stays set aside, in milliseconds, unless there's no room for others. Without it,
   * the drain would have to wait for each of a series of short locks. Defaults to 20 seconds.
   */
  readonly minAsideMs?: number | undefined;
}

interface Reader {
  /** Where and when (`performance.now()`) the project was set aside. */
  readonly start: Position;
  readonly startedAt: number;
  /** All calls of the project before this position have been stored. */
  position: Position;
  /** We've stored all calls of the project that were written before this time (`performance.now()`). */
  storedUntil: number;
  /**
   * The time (`performance.now()`) since which the drain may have been ahead of the reader. Null if the reader has
   * caught up.
   */
  behindSince: number | null;
  /** True if the last window couldn't be stored because the project was locked, or if there hasn't been one yet. */
  isLocked: boolean;
  readonly loop: BackgroundLoop;
}

const backoff = { initialMs: 250, maxMs: 5_000 };
/**
 * A reader that waits for a lock occupies a connection for seconds, so these readers take turns, and only this many
 * wait at the same time.
 */
const maxWaiting = 3;
/**
 * Readers whose projects aren't locked any more have turns of their own. Two of them can store calls at the same time,
 * so that a single slow window doesn't hold up all others.
 */
const maxStoring = 2;
const maxProjects = 8;
/**
 * How long the drain waits for readers to catch up. If that isn't long enough, it waits for twice as long the next
 * time. Before that, it stores calls for ten times as long as it has waited.
 */
const handOver = { minMs: 500, maxMs: 2_000, pauseFactor: 10 };

/** Reports about all projects don't wait for readers that have been behind the drain for longer than this. */
const maxReportLagMs = 5_000;

export function createSetAside(options: SetAsideOptions) {
  const { segments, drained, drainedUntil, storeWindowOf, onProgress, onFirstFailure, onRecovered, minAsideMs = 20_000 } = options;
  const readers = new Map<string, Reader>();
  const turns = { locked: createQuerySlots(maxWaiting), free: createQuerySlots(maxStoring) };
  let handOverMs = handOver.minMs;
  /** The drain doesn't wait for readers before this time (`performance.now()`). */
  let handOverAt = 0;

  const storeUnlessLocked = async (projectId: string, reader: Reader, part: SegmentPart, lane: ReaderLane): Promise<void> => {
    try {
      reader.position = { segment: part.segment.number, offset: await storeWindowOf(part, projectId, lane) };
      reader.isLocked = false;
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      reader.isLocked = true;
    } finally {
      onProgress();
    }
  };

  /** Stores the project's calls up to the current position of the drain, or until the project is locked. */
  const follow = async (projectId: string, reader: Reader, signal: AbortSignal): Promise<NextRun> => {
    const startedAt = performance.now();
    const targetUntil = drainedUntil();
    const target = drained();
    for (const segment of [...segments()]) {
      const { number } = segment;
      if (number < reader.position.segment || number > target.segment) continue;
      if (number > reader.position.segment) reader.position = { segment: number, offset: 0 };
      const end = number === target.segment ? target.offset : segment.bytes;
      // Once the reader has caught up, the drain may move it on to the next segment.
      while (reader.position.segment === number && reader.position.offset < end) {
        const part = { segment, start: reader.position.offset, end };
        const lane = reader.isLocked ? 'locked' : 'free';
        await turns[lane].run(() => storeUnlessLocked(projectId, reader, part, lane), signal);
        signal.throwIfAborted();
        if (reader.isLocked) return 'again';
      }
    }
    reader.storedUntil = targetUntil;
    if (!isBehind(reader)) {
      reader.behindSince = null;
      return 'idle';
    }
    // The drain has moved on in the meantime. If it went to a new segment, it hasn't woken the readers.
    reader.behindSince = startedAt;
    return 'again';
  };

  const oldestOf = (selected: readonly Reader[]): Position =>
    selected.reduce((oldest, { position }) => (isBefore(position, oldest) ? position : oldest), drained());

  const isFull = (): boolean => readers.size >= maxProjects;
  const isBehind = ({ position }: Reader): boolean => isBefore(position, drained());
  const isRecent = ({ startedAt }: Reader): boolean => performance.now() - startedAt < minAsideMs;
  const isInFirstWindow = ({ start }: Reader): boolean => !isBefore(start, drained());

  /** True if reports about all projects should wait for this reader. */
  const isFollowing = ({ isLocked, loop, behindSince }: Reader): boolean =>
    !isLocked && !loop.isFailing && (behindSince === null || performance.now() - behindSince < maxReportLagMs);

  /** True if the drain should wait for this reader, because it can probably catch up. */
  const isReturning = (reader: Reader): boolean =>
    isBehind(reader) && !reader.isLocked && !reader.loop.isFailing && (isFull() || !isRecent(reader));

  const catchUp = async ({ loop }: Reader): Promise<void> => {
    await loop.idle(); // A run in progress may have started before the drain reached its current position.
    await loop.runNow();
  };

  const catchUpAll = (selected: readonly Reader[]): Promise<unknown> => Promise.allSettled(selected.map(catchUp));

  const waitFor = async (selected: readonly Reader[]): Promise<void> => {
    const startedAt = performance.now();
    await withTimeout(catchUpAll(selected), handOverMs, () => undefined);
    const endedAt = performance.now();
    if (selected.some(isBehind)) {
      handOverAt = endedAt + handOver.pauseFactor * (endedAt - startedAt);
      handOverMs = Math.min(2 * handOverMs, handOver.maxMs);
    } else handOverMs = handOver.minMs;
  };

  const remove = (canReturn: (reader: Reader) => boolean): void => {
    for (const [projectId, reader] of readers) {
      if (isBehind(reader) || !canReturn(reader)) continue;
      readers.delete(projectId);
      void reader.loop.stop();
    }
    if (readers.size === 0) [handOverMs, handOverAt] = [handOver.minMs, 0];
  };

  return {
    has: (projectId: string): boolean => readers.has(projectId),
    isMentionedIn: (meta: Buffer): boolean => [...readers.keys()].some((projectId) => meta.includes(projectId)),
    isFull,
    /** Sets a project aside, beginning with the calls at the drain's position. Don't call this after `stop`. */
    add(projectId: string): void {
      const loop = createBackgroundLoop({
        run: (signal) => follow(projectId, reader, signal),
        intervalMs: null,
        backoff,
        onFirstFailure(error) {
          onFirstFailure(error, projectId);
          onProgress(); // From now on, reports about all projects don't wait for this reader.
        },
        onRecovered() {
          loop.wake(); // The drain doesn't wake readers that are failing, so it may have moved on.
          onRecovered(projectId);
        },
      });
      const start = drained();
      const since = { startedAt: performance.now(), storedUntil: drainedUntil(), behindSince: null };
      const reader: Reader = { start, position: start, ...since, isLocked: true, loop };
      readers.set(projectId, reader);
    },
    /** Lets the readers that have caught up follow the drain to its next segment. Call this before it gets there. */
    moveOn(next: Position): void {
      for (const reader of readers.values()) if (!isBehind(reader)) reader.position = next;
    },
    /** Tells the readers that the drain has moved on. */
    wake(): void {
      for (const reader of readers.values()) {
        if (isBehind(reader)) reader.behindSince ??= performance.now();
        if (!reader.loop.isFailing) reader.loop.wake();
      }
    },
    /**
     * Removes the projects whose readers have caught up. While the drain is busy, each reader is at least one window
     * behind, so we wait for those whose projects aren't locked any more.
     *
     * Only call this before the drain looks at the next window. Otherwise, it may have skipped calls that the reader
     * hasn't seen yet. If the drain has to repeat a window, the projects that it has set aside in this window stay, so
     * that it doesn't wait for their locks again. But if there's no room for others, it tries these projects once more.
     */
    async takeBack(): Promise<void> {
      for (const reader of readers.values()) if (!isBehind(reader)) reader.storedUntil = drainedUntil();
      const returning = [...readers.values()].filter(isReturning);
      if (returning.length > 0 && performance.now() >= handOverAt) await waitFor(returning);
      remove((reader) => !isInFirstWindow(reader) && !isRecent(reader));
      if (isFull()) remove((reader) => !isInFirstWindow(reader));
      if (isFull()) remove(() => true);
    },
    /** True if the reader of this project is waiting until it retries after an error. */
    isFailing: (projectId: string): boolean => readers.get(projectId)?.loop.isFailing === true,
    /** All calls of the project before this position have been stored. */
    positionOf: (projectId: string): Position => readers.get(projectId)?.position ?? drained(),
    /** All calls before this position have been stored. */
    oldestPosition: (): Position => oldestOf([...readers.values()]),
    /** All calls before this position have been stored, except for those of projects that are locked, failing or far behind. */
    followedPosition: (): Position => oldestOf([...readers.values()].filter(isFollowing)),
    /** All calls that were written before this time have been stored. Null if no reader is behind the drain. */
    storedUntil(): number | null {
      const times = [...readers.values()].filter(isBehind).map(({ storedUntil }) => storedUntil);
      return times.length === 0 ? null : Math.min(...times);
    },
    /** Resolves when each reader has caught up with the drain, has found that its project is locked, or has failed. */
    async finish(): Promise<void> {
      await catchUpAll([...readers.values()]);
    },
    stop(): void {
      for (const { loop } of readers.values()) void loop.stop(); // Don't wait for this, because a run may hang in the database.
    },
  };
}
