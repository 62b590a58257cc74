/**
 * The states of a counter's quota. In every state except `idle` a statement is in progress, so there's at most one
 * statement per counter.
 */

export type QuotaState =
  | 'idle'
  /** A statement is checking whether the lease still exists, because it may have been revoked. */
  | 'verifying'
  | 'returning'
  | 'acquiring'
  /** We've asked other processes to return quota and are waiting for it. */
  | 'requesting'
  | 'prefetching'
  /** After a failed statement, we're updating the lease in the database to what this process holds. */
  | 'reconciling'
  | 'removing'
  /**
   * The current statement has failed or is too slow, so waiting calls get `unavailable`. When it ends, the previous
   * state returns.
   */
  | 'stalled';

export type QuotaTask = Exclude<QuotaState, 'idle' | 'stalled'>;

/**
 * The transitions between states. A failing statement leads to `stalled`, then back to the previous state when it ends,
 * and finally to `idle`.
 */
export const quotaTransitions: Readonly<Record<QuotaState, readonly QuotaState[]>> = {
  idle: ['verifying', 'returning', 'acquiring', 'prefetching', 'reconciling', 'removing'],
  verifying: ['idle', 'returning', 'acquiring', 'stalled'],
  returning: ['idle', 'verifying', 'returning', 'acquiring', 'stalled'],
  acquiring: ['idle', 'verifying', 'returning', 'acquiring', 'requesting', 'stalled'],
  requesting: ['idle', 'verifying', 'returning', 'acquiring', 'stalled'],
  prefetching: ['idle', 'stalled'],
  reconciling: ['idle', 'stalled'],
  removing: ['idle', 'stalled'],
  stalled: ['verifying', 'returning', 'acquiring', 'requesting', 'prefetching', 'reconciling', 'removing'],
};

export interface QuotaStateMachineOptions {
  readonly tasks: Readonly<Record<QuotaTask, () => Promise<QuotaTask | 'idle'>>>;
  /** Called if a task fails, in which case we don't know whether the database has executed its statement. */
  readonly onFailure: () => void;
  readonly onIdle: () => void;
  readonly onTransition?: ((from: QuotaState, to: QuotaState) => void) | undefined;
}

export function createQuotaStateMachine({ tasks, onFailure, onIdle, onTransition }: QuotaStateMachineOptions) {
  let current: QuotaState = 'idle';
  let stalledFrom: QuotaState = 'idle';
  let running: Promise<void> = Promise.resolve();

  const enter = (next: QuotaState): void => {
    if (!quotaTransitions[current].includes(next)) throw new Error(`quota: no transition from ${current} to ${next}`);
    onTransition?.(current, next);
    current = next;
  };

  const run = async (first: QuotaTask): Promise<void> => {
    try {
      for (let task: QuotaTask | 'idle' = first; task !== 'idle'; task = await tasks[task]()) enter(task);
    } catch {
      onFailure();
    }
    enter('idle');
    onIdle();
  };

  return {
    current: (): QuotaState => current,
    /** Starts a task and the tasks that follow from it. Does nothing if a task is already running. */
    start(task: QuotaTask | 'idle'): void {
      if (current === 'idle' && task !== 'idle') running = run(task);
    },
    stall(): void {
      if (current === 'stalled') return;
      stalledFrom = current;
      enter('stalled');
    },
    resume(): void {
      if (current === 'stalled') enter(stalledFrom);
    },
    /** Resolves when the current task, and every task that it leads to, has ended. */
    settled: (): Promise<void> => running,
  };
}
