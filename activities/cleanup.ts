/**
 * The activity of the workflow `dailyCleanup`. It runs the steps batch by batch, and returns its progress every minute.
 */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface CleanupActivityDeps {
  /** The steps in the order in which they run. */
  readonly steps: readonly CleanupStep[];
  readonly sliceMs?: number;
}

export interface CleanupStep {
  /** An id, because it's stored in workflow histories. */
  readonly name: string;
  /** Processes a batch and returns the number of rows in it, or 0 if there's nothing left to do. */
  run(signal: AbortSignal): Promise<number>;
}

export function createCleanupActivities({ steps, sliceMs = 60_000 }: CleanupActivityDeps): Pick<Activities, 'cleanUp'> {
  return {
    cleanUp: ({ step: name }) =>
      withHeartbeats(async () => {
        const signal = cancellationSignal();
        const index = name === null ? 0 : steps.findIndex((step) => step.name === name);
        const step = steps[index];
        // The step belongs to another version of the gateway, so we end the run. Tomorrow's run starts from the first
        // step.
        if (!step) return { step: null, next: null, rows: 0 };
        const endAt = performance.now() + sliceMs;
        let rows = 0;
        for (let more = true; more; ) {
          if (performance.now() >= endAt) return { step: step.name, next: step.name, rows };
          signal.throwIfAborted();
          const done = await step.run(signal);
          rows += done;
          more = done > 0;
        }
        return { step: step.name, next: steps[index + 1]?.name ?? null, rows };
      }),
  };
}
