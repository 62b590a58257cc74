/**
 * Watches for runs that ended early, because they failed or an operator terminated or cancelled them. Once a run is
 * terminated, it can't execute any more workflow code. The only ways to learn about it are the visibility store, and
 * Temporal's refusal to start the workflow again.
 */
import { WorkflowNotFoundError } from '@temporalio/common';
import type { WorkflowName } from '../../workflows/contract.ts';
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { Clock } from '../core/time.ts';
import type { Logger } from '../observability/logger.ts';
import type { StartEntry } from './client/describe-run.ts';
import type { StartOptions, Temporal } from './client/temporal.ts';

export interface ClosedRun {
  readonly workflowId: string;
  readonly runId: string;
  /** True if an operator terminated or cancelled the run, false if it failed. */
  readonly byOperator: boolean;
}

/** Finds and closes work in the database whose Temporal run has ended. */
export interface WorkOfRuns {
  /**
   * Returns the runs whose work is still open. If a run had already closed its work, we leave it out, because somebody
   * must have reopened the work since then.
   */
  filterOpen(runs: readonly ClosedRun[]): Promise<readonly ClosedRun[]>;
  /** Closes the work of a run, which has to be the latest run of its workflow id. Idempotent. */
  close(run: ClosedRun): Promise<void>;
  isOpen(workflowId: string): Promise<boolean>;
}

type RunClient = Pick<Temporal, 'writeOnlyClient'>;

export interface ClosedRunsOptions {
  readonly temporal: RunClient;
  readonly workflow: WorkflowName;
  readonly work: WorkOfRuns;
  readonly clock: Clock;
  readonly logger: Logger;
}

const intervalMs = 10_000;
const requestTimeoutMs = 10_000;
/**
 * Each check overlaps with the previous one by this much, to make up for the lag of the visibility store and for clock
 * skew.
 */
const overlapMs = 5 * 60_000;
/**
 * How far back the first check looks, which is as long as closed runs are kept in namespaces that the gateway has
 * created.
 */
const initialRangeMs = 3 * 24 * 3_600_000;

export function watchClosedRuns({ temporal, workflow, work, clock, logger }: ClosedRunsOptions): { stop(): Promise<void> } {
  let since = clock.now() - initialRangeMs;
  const loop = createBackgroundLoop({
    async run(signal) {
      const startedAt = clock.now();
      const closed = await listClosed(new Date(since), signal);
      for (const { workflowId, runId } of closed.length > 0 ? await work.filterOpen(closed) : []) {
        const newest = await findNewestRun(temporal, workflowId, signal);
        if (newest?.runId === runId && newest.isClosed) await work.close(newest);
      }
      since = startedAt - overlapMs;
      return 'idle';
    },
    intervalMs,
    onFirstFailure: (error) => logger.warn({ err: error }, 'failed to read closed runs; retrying'),
  });
  loop.start();
  return loop;

  async function listClosed(from: Date, signal: AbortSignal): Promise<ClosedRun[]> {
    const query = `WorkflowType = "${workflow}" and ExecutionStatus in ("Terminated", "Canceled", "Failed", "TimedOut") and CloseTime > "${from.toISOString()}"`;
    const runs = temporal.writeOnlyClient.workflow.list({ query })[Symbol.asyncIterator]();
    const closed: ClosedRun[] = [];
    for (;;) {
      const { value, done } = await withTimeout(temporal, () => runs.next(), signal);
      if (done) return closed;
      closed.push({ workflowId: value.workflowId, runId: value.runId, byOperator: isByOperator(value.status.name) });
    }
  }
}

/**
 * Starts the entry's workflow. The server refuses if the latest run has ended. If an operator ended that run, we close
 * its work. If the tables still have open work after that, Temporal or the tables must have lost some state, so we
 * start the workflow again.
 */
export async function startOpenWork(
  temporal: RunClient & Pick<Temporal, 'start'>,
  entry: StartEntry,
  { work, ...options }: StartOptions & { readonly work: Pick<WorkOfRuns, 'close' | 'isOpen'> },
): Promise<void> {
  if (await temporal.start(entry, options)) return;
  const newest = await findNewestRun(temporal, entry.workflowId);
  if (newest?.isClosed && newest.byOperator) await work.close(newest);
  if (await work.isOpen(entry.workflowId)) await temporal.start(entry, { ...options, again: true });
}

async function findNewestRun(
  temporal: RunClient,
  workflowId: string,
  signal?: AbortSignal,
): Promise<(ClosedRun & { readonly isClosed: boolean }) | null> {
  const handle = temporal.writeOnlyClient.workflow.getHandle(workflowId);
  const run = await withTimeout(temporal, () => handle.describe().catch(nullIfNotFound), signal);
  if (!run) return null;
  return { workflowId, runId: run.runId, byOperator: isByOperator(run.status.name), isClosed: run.status.name !== 'RUNNING' };
}

function isByOperator(status: string): boolean {
  return status === 'TERMINATED' || status === 'CANCELLED';
}

function withTimeout<Result>({ writeOnlyClient }: RunClient, request: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
  const timeout = AbortSignal.timeout(requestTimeoutMs);
  return writeOnlyClient.withAbortSignal(signal ? AbortSignal.any([signal, timeout]) : timeout, request);
}

function nullIfNotFound(error: unknown): null {
  if (error instanceof WorkflowNotFoundError) return null;
  throw error;
}
