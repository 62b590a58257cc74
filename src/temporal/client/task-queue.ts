/**
 * Reads the state of our task queue from the Temporal server. This tells how many tasks are waiting for a worker, and
 * whether the server supports fairness keys.
 */

import { optionalTsToMs } from '@temporalio/common/lib/time.js';
import { memoryQueue } from '../../../workflows/contract.ts';
import type { connect } from '../connection/temporal-connection.ts';

export interface TaskQueueState {
  readonly serverVersion: string;
  /** True if this version of the server supports fairness keys. Null if its version number can't be parsed. */
  readonly knowsFairness: boolean | null;
  readonly backlogs: readonly Backlog[];
}

/** The backlog of one type of task. Some Temporal servers don't report it. */
export interface Backlog {
  readonly type: 'workflow' | 'activity';
  /** The approximate number of waiting tasks. Temporal doesn't know the exact number. */
  readonly tasks: number;
  readonly ageMs: number;
}

const taskTypes = [
  ['workflow', 1],
  ['activity', 2],
] as const;
/** The first server version that supports `matching.enableFairness`. */
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
