/**
 * The states of a counter's quota. In every state except `idle` a task is running, so there's never more than one
 * statement per counter at a time.
 */

export type QuotaState =
  | 'idle'
  /** Our lease may have been revoked, so we're checking whether it still exists. */
  | 'verifying'
  | 'returning'
  | 'acquiring'
  /** We've asked other processes to return quota and are waiting for it. */
  | 'requesting'
  | 'prefetching'
  /** A statement has failed, so we're changing the lease in the database to what this process really holds. */
  | 'reconciling'
  | 'removing'
  /**
   * The current statement has failed or is taking too long, so waiting calls get `unavailable`. When the statement
   * ends, the state changes back to the previous one.
   */
  | 'stalled';

export type QuotaTask = Exclude<QuotaState, 'idle' | 'stalled'>;

/**
 * The allowed transitions between states. If a statement fails or takes too long, the state changes to `stalled`. When
 * the statement ends, it changes back to the previous state, and then to `idle`.
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
  /** Called if a task fails. The database may or may not have executed the task's statement. */
  readonly onFailure: () => void;
  readonly onIdle: () => void;
  readonly onTransition?: ((from: QuotaState, to: QuotaState) => void) | undefined;
}

export function createQuotaStateMachine({ tasks, onFailure, onIdle, onTransition }: QuotaStateMachineOptions) {
  let current: QuotaState = 'idle';
  let stalledFrom: QuotaState = 'idle';
  let running: Promise<void> = Promise.resolve();

  const enter = (next: QuotaState): void => {
    if (!quotaTransitions[current].includes(next)) throw new Error(`invalid transition of the quota state from ${current} to ${next}`);
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
    /**
     * Runs a task, then the task that it returns, and so on until one of them returns `idle`. Does nothing if a task is
     * already running.
     */
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
    /** Resolves when the current task, and all tasks that follow from it, have ended. */
    settled: (): Promise<void> => running,
  };
}
