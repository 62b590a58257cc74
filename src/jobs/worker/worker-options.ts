/** What a worker is to run, and how it is sized. */
import type { DataConverter } from '@temporalio/common';
import type { Logger } from '../../observability/logger.ts';
import { wrapActivities } from './wrap-activities.ts';

export interface WorkerSpec {
  readonly queue: string;
  readonly activities: object;
  /** Path of the workflow bundle; asked for at each (re)start of the worker. */
  readonly bundle: (signal: AbortSignal) => Promise<string>;
  /** Set: the worker takes part in worker versioning under this build id. */
  readonly buildId?: string;
  /** What running activities and workflow tasks get to finish at a stop. */
  readonly graceMs?: number;
}

/** Sized for two cores: our activities wait for the database, and workflow tasks last a millisecond. */
export function workerOptions(
  { queue, activities, buildId, graceMs = 10_000 }: WorkerSpec,
  { dataConverter, logger }: { dataConverter: DataConverter; logger: Logger },
) {
  const options = {
    taskQueue: queue,
    activities: wrapActivities(activities, logger),
    dataConverter,
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
  // Every run of ours may wait for days, for turns, vendors or settings: pinned, it would be stuck when the workers of its build are ended. What
  // this asks of a change of a workflow is what it has to keep without versioning as well: the committed histories are replayed.
  return {
    ...options,
    workerDeploymentOptions: { version, useWorkerVersioning: true as const, defaultVersioningBehavior: 'AUTO_UPGRADE' as const },
  };
}
