/** Keeps the callers that wait until the drain has stored the calls before a position in the journal. */
import { withTimeout } from '../core/time-limit.ts';
import { isBefore, type Position } from './position.ts';

interface Waiter {
  /** If this is set, only the calls of this project matter. */
  readonly projectId: string | undefined;
  readonly target: Position;
  readonly resolve: () => void;
}

/** `positionOf` says up to which position the calls of a project, or of all projects, have been stored. */
export function createWaiters(positionOf: (projectId: string | undefined) => Position) {
  let waiters: readonly Waiter[] = [];
  const isReached = ({ projectId, target }: Omit<Waiter, 'resolve'>): boolean => !isBefore(positionOf(projectId), target);

  return {
    isReached,
    /** Resolves when the position is reached, or after `timeoutMs`. */
    async wait(target: Omit<Waiter, 'resolve'>, timeoutMs: number): Promise<void> {
      const { promise: reached, resolve } = Promise.withResolvers<void>();
      const waiter: Waiter = { ...target, resolve };
      waiters = [...waiters, waiter];
      await withTimeout(reached, timeoutMs, () => undefined);
      waiters = waiters.filter((other) => other !== waiter);
    },
    /** Call this when a position has changed. */
    resolveReached(): void {
      for (const waiter of waiters) if (isReached(waiter)) waiter.resolve();
    },
    resolveAll(): void {
      for (const waiter of waiters) waiter.resolve();
    },
  };
}
