/**
 * Monitors how long tasks wait in Temporal's queue, and reports it in metrics and the log. Without this we wouldn't
 * notice that no worker is taking tasks, because the work has already left the outbox and hasn't failed.
 */
import { memoryQueue } from '../../workflows/contract.ts';
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { Logger } from '../observability/logger.ts';
import type { TaskQueueState } from './client/task-queue.ts';

export interface TaskQueueWatchOptions {
  readonly read: () => Promise<TaskQueueState>;
  readonly logger: Logger;
  readonly intervalMs?: number;
}

export interface TaskQueueWatch {
  /** Returns the latest state of the task queue. Null if it hasn't been read yet, or if the last attempt failed. */
  current(): TaskQueueState | null;
  stop(): Promise<void>;
}

/** Keep this equal to the threshold in the `TemporalBacklog` alert. */
const maxAgeMs = 60_000;

export function watchTaskQueue({ read, logger, intervalMs = 10_000 }: TaskQueueWatchOptions): TaskQueueWatch {
  let state: TaskQueueState | null = null;
  let isLate = false;
  let unfairVersion: string | null = null;
  const loop = createBackgroundLoop({
    async run() {
      state = await read();
      logChanges(state);
      return 'idle';
    },
    intervalMs,
    // The dispatcher already logs when Temporal is unavailable, so don't log it again.
    onFailure: () => {
      state = null;
    },
  });
  loop.start();
  return { current: () => state, stop: () => loop.stop() };

  function logChanges({ backlogs, serverVersion, knowsFairness }: TaskQueueState): void {
    const late = backlogs.find(({ ageMs }) => ageMs > maxAgeMs);
    if (late && !isLate)
      logger.warn(
        { queue: memoryQueue, tasks: late.tasks, seconds: Math.round(late.ageMs / 1_000) },
        'Temporal tasks waiting for a worker',
      );
    if (!late && isLate) logger.info({ queue: memoryQueue }, 'Temporal workers have picked up the waiting tasks');
    isLate = late !== undefined;
    if (knowsFairness === false && unfairVersion !== serverVersion)
      logger.warn(
        { version: serverVersion },
        'Temporal server does not support fairness, so a busy project can delay the others; upgrade it',
      );
    unfairVersion = knowsFairness === false ? serverVersion : null;
  }
}
