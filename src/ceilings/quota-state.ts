/**
 * The states of a counter's quota. In every state except `idle` a statement is in progress, so there's at most one
 * statement per counter.
 */

export type QuotaState =
  | 'idle'
  /** Checks whether the lease still exists, because it may have been revoked. */
  | 'verifying'
  | 'returning'
  /** Acquires quota for the waiting calls. */
  | 'acquiring'
  /** Asks other processes to return quota, and waits for a while. */
  | 'requesting'
  /** Leases quota in advance. */
  | 'prefetching'
  /**
   * Changes the lease to what this process holds. That's necessary if we don't know whether a statement was executed.
   */
  | 'reconciling'
  | 'removing'
  /**
   * The current statement has failed or is too slow, so waiting calls get `unavailable`. When it ends, we go back to
   * the previous state.
   */
  | 'stalled';

export type QuotaTask = Exclude<QuotaState, 'idle' | 'stalled'>;

/**
 * The states to which each state can change. If a statement fails, the quota is `stalled` first, goes back to its
 * previous state when the statement ends, and then becomes `idle`.
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
  /** Executes the statement of a task, and returns the task that comes next. */
  readonly tasks: Readonly<Record<QuotaTask, () => Promise<QuotaTask | 'idle'>>>;
  /** Called when a task has failed. The database may or may not have executed its statement. */
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
    /** Starts a task unless one is already running. Tasks that follow from it start automatically. */
    start(task: QuotaTask | 'idle'): void {
      if (current === 'idle' && task !== 'idle') running = run(task);
    },
    /** Call this if the current statement has failed or is taking too long. */
    stall(): void {
      if (current === 'stalled') return;
      stalledFrom = current;
      enter('stalled');
    },
    /** Call this when the statement has ended. If we're in the state `stalled`, we go back to the previous one. */
    resume(): void {
      if (current === 'stalled') enter(stalledFrom);
    },
    /** Resolves when the current task has ended, including all tasks that it leads to. */
    settled: (): Promise<void> => running,
  };
}
