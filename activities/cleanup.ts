/**
 * The activity of the `dailyCleanup` workflow. It runs the cleanup steps in batches and returns its progress every
 * minute.
 */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface CleanupActivityDeps {
  /** The steps of the daily cleanup, in the order in which they run. */
  readonly steps: readonly CleanupStep[];
  readonly sliceMs?: number;
}

export interface CleanupStep {
  /** Workflow histories refer to the step by this name, so don't rename it. */
  readonly name: string;
  /** Processes one batch and returns its number of rows, or 0 if there was nothing to process. */
  run(signal: AbortSignal): Promise<number>;
}

export function createCleanupActivities({ steps, sliceMs = 60_000 }: CleanupActivityDeps): Pick<Activities, 'cleanUp'> {
  return {
    cleanUp: ({ step: name }) =>
      withHeartbeats(async () => {
        const signal = cancellationSignal();
        const index = name === null ? 0 : steps.findIndex((step) => step.name === name);
        const step = steps[index];
        // Another version may have started the run and passed a step that this version doesn't have. End the run.
        // Tomorrow's run starts from the first step.
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
