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
   * Adjusts the lease to what this process holds. This is necessary after a statement that may or may not have been
   * executed.
   */
  | 'reconciling'
  | 'removing'
  /**
   * Entered when the current statement has failed or is too slow. Waiting calls get `unavailable`. Once the statement
   * ends, we go back to the previous state.
   */
  | 'stalled';

export type QuotaTask = Exclude<QuotaState, 'idle' | 'stalled'>;

/**
 * Lists the states that can follow each state. After a failed statement, the quota is `stalled`, then returns to the
 * state that it was in, and then becomes `idle`.
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
    /** Starts a task if none is running. Afterwards, follow-up tasks start on their own. */
    start(task: QuotaTask | 'idle'): void {
      if (current === 'idle' && task !== 'idle') running = run(task);
    },
    /** Call this if the current statement has failed or is taking too long. */
    stall(): void {
      if (current === 'stalled') return;
      stalledFrom = current;
      enter('stalled');
    },
    /** Call this when the statement has ended. Switches from `stalled` to the previous state. */
    resume(): void {
      if (current === 'stalled') enter(stalledFrom);
    },
    /** Resolves once the current task, and every task that it leads to, has ended. */
    settled: (): Promise<void> => running,
  };
}
