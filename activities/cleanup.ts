/** The activity of the workflow `dailyCleanup`: goes through the steps, a slice after the other, and says every minute how far it is. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface CleanupActivityDeps {
  /** In this order. */
  readonly steps: readonly CleanupStep[];
  readonly sliceMs?: number;
}

export interface CleanupStep {
  /** An id: it stands in histories. */
  readonly name: string;
  /** Does some of it, in a short time where that can be; returns how many rows it came to, 0 when nothing is left. */
  run(signal: AbortSignal): Promise<number>;
}

export function createCleanupActivities({ steps, sliceMs = 60_000 }: CleanupActivityDeps): Pick<Activities, 'cleanUp'> {
  return {
    cleanUp: ({ step: name }) =>
      withHeartbeats(async () => {
        const signal = cancellationSignal();
        const index = name === null ? 0 : steps.findIndex((step) => step.name === name);
        const step = steps[index];
        // A step of another version of ours: what there is now comes tomorrow.
        if (!step) return { next: null, rows: 0 };
        const endAt = performance.now() + sliceMs;
        let rows = 0;
        for (let more = true; more; ) {
          if (performance.now() >= endAt) return { next: step.name, rows };
          signal.throwIfAborted();
          const done = await step.run(signal);
          rows += done;
          more = done > 0;
        }
        return { next: steps[index + 1]?.name ?? null, rows };
      }),
  };
}
