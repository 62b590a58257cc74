/** Defines what a worker runs and how many tasks it runs at once. */
import type { DataConverter } from '@temporalio/common';
import { memoryQueue } from '../../../workflows/contract.ts';
import type { Logger } from '../../observability/logger.ts';
import { measureWaits } from './measure-waits.ts';
import { traceActivities, traceSink } from './trace-runs.ts';
import { wrapActivities } from './wrap-activities.ts';

export interface WorkerSpec {
  readonly activities: object;
  /** Resolves to the path of the workflow bundle. Called each time the worker (re)starts. */
  readonly bundle: (signal: AbortSignal) => Promise<string>;
  /** If this is set, the worker uses worker versioning with this build id. */
  readonly buildId?: string | undefined;
  /** Called at the start of each activity with the time that its task waited for a worker, in milliseconds. */
  readonly onActivityWait?: (ms: number) => void;
  /** The time that running activities and workflow tasks get to finish during a stop. */
  readonly graceMs: number;
}

/**
 * Returns options for two cores. Activities spend most of their time waiting for the database, and a workflow task
 * takes about a millisecond.
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
  // A run may wait for days, so if we pinned it to a build, it would get stuck once the workers of that build have
  // stopped. Auto-upgrade requires that every change to a workflow can replay histories of earlier versions, which
  // test/workflows/replay.test.ts checks anyway.
  return {
    ...options,
    workerDeploymentOptions: { version, useWorkerVersioning: true as const, defaultVersioningBehavior: 'AUTO_UPGRADE' as const },
  };
}
