/** Defines what a worker runs, and how many tasks it can run at the same time. */
import type { DataConverter } from '@temporalio/common';
import { memoryQueue } from '../../../workflows/contract.ts';
import type { Logger } from '../../observability/logger.ts';
import { measureWaits } from './measure-waits.ts';
import { activitySlots, createSlotShares, shareSlots } from './share-slots.ts';
import { traceActivities, traceSink } from './trace-runs.ts';
import { wrapActivities } from './wrap-activities.ts';

export interface WorkerSpec {
  readonly activities: object;
  /** Returns the path of the workflow bundle. Called whenever the worker (re)starts. */
  readonly bundle: (signal: AbortSignal) => Promise<string>;
  readonly buildId?: string | undefined;
  /** Called when an activity starts, with the time in milliseconds that its task had to wait for a worker. */
  readonly onActivityWait?: (ms: number) => void;
  readonly graceMs: number;
}

/**
 * Returns the worker's options. The limits are meant for a machine with two cores. Most activities just wait for a
 * model or the database, and a workflow task takes about a millisecond.
 */
export function workerOptions(
  { activities, buildId, onActivityWait, graceMs }: WorkerSpec,
  { dataConverter, logger }: { dataConverter: DataConverter; logger: Logger },
) {
  const options = {
    taskQueue: memoryQueue,
    activities: wrapActivities(activities, logger),
    dataConverter,
    // The first interceptor is the outermost one, so we neither trace nor measure attempts that were turned away.
    interceptors: {
      activity: [shareSlots(createSlotShares()), traceActivities, ...(onActivityWait ? [measureWaits(onActivityWait)] : [])],
    },
    sinks: traceSink,
    maxCachedWorkflows: 200,
    workflowThreadPoolSize: 1,
    maxConcurrentWorkflowTaskExecutions: 10,
    maxConcurrentActivityTaskExecutions: activitySlots,
    workflowTaskPollerBehavior: { type: 'simple-maximum' as const, maximum: 2 },
    activityTaskPollerBehavior: { type: 'simple-maximum' as const, maximum: 2 },
    shutdownGraceTime: graceMs,
    shutdownForceTime: graceMs + 5_000,
  };
  if (buildId === undefined) return options;
  const version = { deploymentName: 'model-gateway', buildId };
  // Let runs move to newer builds automatically. A run can wait for days, so if it were pinned to a build, it would be
  // stuck once that build's workers have stopped. It also means that a changed workflow must be able to replay
  // histories of earlier versions, but test/workflows/replay.test.ts makes sure of that anyway.
  return {
    ...options,
    workerDeploymentOptions: { version, useWorkerVersioning: true as const, defaultVersioningBehavior: 'AUTO_UPGRADE' as const },
  };
}
