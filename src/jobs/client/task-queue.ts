/** What the Temporal server says of the gateway's task queue: the tasks that wait for a worker, and whether it knows fairness keys. */

import { optionalTsToMs } from '@temporalio/common/lib/time.js';
import { memoryQueue } from '../../../workflows/contract.ts';
import type { connect } from '../connection/temporal-connection.ts';

export interface TaskQueueState {
  readonly serverVersion: string;
  /** Whether servers of this version can share a queue fairly. Null when the version is not a number that we know how to compare. */
  readonly knowsFairness: boolean | null;
  readonly backlogs: readonly Backlog[];
}

/** Tasks that wait in the queue. Servers that do not report them have none here. */
export interface Backlog {
  readonly type: 'workflow' | 'activity';
  /** Approximate, as all that the server says. */
  readonly tasks: number;
  /** How long the oldest has waited. */
  readonly ageMs: number;
}

/** Enum values of `TaskQueueType`. */
const taskTypes = [
  ['workflow', 1],
  ['activity', 2],
] as const;
/** The first version that has `matching.enableFairness`. */
const fairSince = { major: 1, minor: 29 };

export async function readTaskQueue({ workflowService }: ReturnType<typeof connect>, namespace: string): Promise<TaskQueueState> {
  const { serverVersion } = await workflowService.getSystemInfo({});
  const backlogs: Backlog[] = [];
  for (const [type, taskQueueType] of taskTypes) {
    const { stats } = await workflowService.describeTaskQueue({
      namespace,
      taskQueue: { name: memoryQueue },
      taskQueueType,
      reportStats: true,
    });
    if (!stats) continue;
    const tasks = Number(String(stats.approximateBacklogCount));
    backlogs.push({ type, tasks, ageMs: tasks > 0 ? (optionalTsToMs(stats.approximateBacklogAge) ?? 0) : 0 });
  }
  return { serverVersion, knowsFairness: knowsFairness(serverVersion), backlogs };
}

export function knowsFairness(version: string): boolean | null {
  const [, major, minor] = /^v?(\d+)\.(\d+)\./.exec(version) ?? [];
  if (major === undefined) return null;
  return Number(major) > fairSince.major || (Number(major) === fairSince.major && Number(minor) >= fairSince.minor);
}
