/** Defines what a worker runs, and how many tasks it runs at the same time. */
import type { DataConverter } from '@temporalio/common';
import { memoryQueue } from '../../../workflows/contract.ts';
import type { Logger } from '../../observability/logger.ts';
import { measureWaits } from './measure-waits.ts';
import { traceActivities, traceSink } from './trace-runs.ts';
import { wrapActivities } from './wrap-activities.ts';

export interface WorkerSpec {
  readonly activities: object;
  /** Returns the path of the workflow bundle. Called whenever the worker (re)starts. */
  readonly bundle: (signal: AbortSignal) => Promise<string>;
  /** If this is set, the worker uses worker versioning with this build id. */
  readonly buildId?: string | undefined;
  /** Called at the start of each activity. `ms` is how long its task waited for a worker. */
  readonly onActivityWait?: (ms: number) => void;
  /** How long running activities and workflow tasks can continue after a stop was requested. */
  readonly graceMs: number;
}

/**
 * Returns the worker's options. The limits suit a machine with two cores. Most activities wait for the database, and a
 * workflow task takes about a millisecond.
 */
export function workerOptions(
  { activities, buildId, onActivityWait, graceMs }: WorkerSpec,
  { dataConverter, logger }: { dataConverter: DataConverter; logger: Logger },
) {
  const options = {
    taskQueue: memoryQueue,
    activities: wrapActivities(activities, logger),
    dataConverter,
    interceptors: { activity: [traceActivities, ...(onActivityWait ? [measureWaits(onActivityWait)] : [])] },
    sinks: traceSink,
    maxCachedWorkflows: 200,
    workflowThreadPoolSize: 1,
    maxConcurrentWorkflowTaskExecutions: 10,
    maxConcurrentActivityTaskExecutions: 10,
    workflowTaskPollerBehavior: { type: 'simple-maximum' as const, maximum: 2 },
    activityTaskPollerBehavior: { type: 'simple-maximum' as const, maximum: 2 },
    shutdownGraceTime: graceMs,
    shutdownForceTime: graceMs + 5_000,
  };
  if (buildId === undefined) return options;
  const version = { deploymentName: 'model-gateway', buildId };
  // Let runs upgrade to newer builds automatically. A run can wait for days, so if it were pinned to a build, it would
  // get stuck once that build's workers have stopped. This means that every change to a workflow must be able to replay
  // histories of earlier versions, which test/workflows/replay.test.ts checks anyway.
  return {
    ...options,
    workerDeploymentOptions: { version, useWorkerVersioning: true as const, defaultVersioningBehavior: 'AUTO_UPGRADE' as const },
  };
}
