/**
 * Watches for runs that ended in Temporal without code of the gateway: terminated or cancelled by an operator, or failed. Terminating runs no
 * workflow code, so only the visibility store shows it.
 */
import { WorkflowNotFoundError } from '@temporalio/common';
import type { WorkflowName } from '../../workflows/contract.ts';
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { Clock } from '../core/time.ts';
import type { Logger } from '../observability/logger.ts';
import type { Temporal } from './client/temporal.ts';

export interface ClosedRun {
  readonly workflowId: string;
  readonly runId: string;
  /** An operator terminated or cancelled it; otherwise it failed. */
  readonly byOperator: boolean;
}

export interface ClosedRunsOptions {
  readonly temporal: Pick<Temporal, 'writeOnlyClient'>;
  readonly workflow: WorkflowName;
  /** Gets closed runs that no newer run of their workflow id follows; may get a run repeatedly. */
  readonly onClosed: (runs: readonly ClosedRun[]) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

const intervalMs = 10_000;
const timeoutMs = 60_000;
/** Longer than visibility stores lag and clocks differ. */
const overlapMs = 5 * 60_000;
/** The retention of namespaces that the gateway creates. */
const initialRangeMs = 3 * 24 * 3_600_000;

/** Begins at once. */
export function watchClosedRuns({ temporal, workflow, onClosed, clock, logger }: ClosedRunsOptions): { stop(): Promise<void> } {
  const { writeOnlyClient: client } = temporal;
  let since = clock.now() - initialRangeMs;
  const loop = createBackgroundLoop({
    async run(signal) {
      const startedAt = clock.now();
      const closed = await listClosed(new Date(since), signal);
      if (closed.length > 0) await onClosed(closed);
      since = startedAt - overlapMs;
      return 'idle';
    },
    intervalMs,
    onFirstFailure: (error) => logger.debug({ err: error }, 'closed runs unavailable; retrying'),
  });
  loop.start();
  return loop;

  async function listClosed(from: Date, signal: AbortSignal): Promise<ClosedRun[]> {
    const query = `WorkflowType = "${workflow}" and ExecutionStatus in ("Terminated", "Canceled", "Failed", "TimedOut") and CloseTime > "${from.toISOString()}"`;
    const closed: ClosedRun[] = [];
    await client.withAbortSignal(AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]), async () => {
      for await (const { workflowId, runId, status } of client.workflow.list({ query })) {
        const newest = await client.workflow.getHandle(workflowId).describe().catch(nullIfNotFound);
        if (newest?.runId === runId)
          closed.push({ workflowId, runId, byOperator: status.name === 'TERMINATED' || status.name === 'CANCELLED' });
      }
    });
    return closed;
  }
}

function nullIfNotFound(error: unknown): null {
  if (error instanceof WorkflowNotFoundError) return null; // Deleted in the meantime.
  throw error;
}
