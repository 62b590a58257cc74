/** The states of a counter's quota. A statement is in progress in every state but `idle`, so a counter has at most one at a time. */

export type QuotaState =
  | 'idle'
  /** Checks that the lease exists, after it may have been revoked. */
  | 'verifying'
  /** Gives available quota back. */
  | 'returning'
  /** Acquires quota for the waiting calls. */
  | 'acquiring'
  /** Asks other processes to return quota, and gives them time to do so. */
  | 'requesting'
  /** Acquires quota before it is needed. */
  | 'prefetching'
  /** Sets the lease to what is held here, after a statement whose outcome is unknown. */
  | 'reconciling'
  /** Deletes an unused lease. */
  | 'removing'
  /** The statement failed or got no response in time. Then the previous state resumes. Waiting calls get `unavailable`. */
  | 'stalled';

/** A state that executes a statement. */
export type QuotaTask = Exclude<QuotaState, 'idle' | 'stalled'>;

/** The states that may follow each state. After a failed statement it is always `stalled`, the state itself, then `idle`. */
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
  /** Executes the statement of each state and returns the next one. */
  readonly tasks: Readonly<Record<QuotaTask, () => Promise<QuotaTask | 'idle'>>>;
  /** A task has failed; it may or may not have taken effect. */
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
    /** Begins a task, unless another one is in progress, and continues with those it leads to. */
    start(task: QuotaTask | 'idle'): void {
      if (current === 'idle' && task !== 'idle') running = run(task);
    },
    /** The statement in progress got no response in time, or failed. */
    stall(): void {
      if (current === 'stalled') return;
      stalledFrom = current;
      enter('stalled');
    },
    /** The statement in progress has ended: returns from `stalled` to the state before it. */
    resume(): void {
      if (current === 'stalled') enter(stalledFrom);
    },
    /** Resolves when the task in progress, and those it led to, have ended. */
    settled: (): Promise<void> => running,
  };
}
