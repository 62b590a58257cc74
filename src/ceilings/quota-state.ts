/**
 * The states of a counter's quota. In every state but `idle` a statement is in progress, so a counter has at most one
 * at a time.
 */

export type QuotaState =
  | 'idle'
  /** Checks that the lease still exists, because it may have been revoked. */
  | 'verifying'
  | 'returning'
  /** Acquires quota for the waiting calls. */
  | 'acquiring'
  /** Asks other processes to return quota and gives them time to do so. */
  | 'requesting'
  /** Acquires quota before it's needed. */
  | 'prefetching'
  /** Sets the lease to what this process holds, after a statement whose outcome is unknown. */
  | 'reconciling'
  | 'removing'
  /**
   * The statement failed or got no response in time. Waiting calls get `unavailable`. When the statement ends, we
   * return to the previous state.
   */
  | 'stalled';

export type QuotaTask = Exclude<QuotaState, 'idle' | 'stalled'>;

/**
 * The states that may follow each state. After a failed statement the order is always `stalled`, the state itself, then
 * `idle`.
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
  /** Executes the statement of each state and returns the next state. */
  readonly tasks: Readonly<Record<QuotaTask, () => Promise<QuotaTask | 'idle'>>>;
  /** Called when a task has failed. It may or may not have taken effect. */
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
    /** Begins a task, unless another one is in progress, and continues with the tasks it leads to. */
    start(task: QuotaTask | 'idle'): void {
      if (current === 'idle' && task !== 'idle') running = run(task);
    },
    /** Called if the statement in progress failed or got no response in time. */
    stall(): void {
      if (current === 'stalled') return;
      stalledFrom = current;
      enter('stalled');
    },
    /** Called when the statement in progress has ended. Returns from `stalled` to the previous state. */
    resume(): void {
      if (current === 'stalled') enter(stalledFrom);
    },
    /** Resolves when the task in progress, and the tasks it led to, have ended. */
    settled: (): Promise<void> => running,
  };
}
