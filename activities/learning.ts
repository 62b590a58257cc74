/** Activities of the workflows `projectLearning` and `learningBatch`, with heartbeats. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, GroupStepResult, LearningCheckResult, PendingGroups } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';
import { toPollResult } from './poll-result.ts';

export interface LearningActivityDeps {
  readonly checkLearning: (projectId: string) => Promise<LearningCheckResult>;
  readonly openBatch: (batchId: string) => Promise<PendingGroups['groups']>;
  readonly learnGroup: (group: GroupKey, signal: AbortSignal) => Promise<GroupStepResult>;
  readonly consolidateGroup: (group: GroupKey, signal: AbortSignal) => Promise<GroupStepResult>;
  /** False when a group is pending. */
  readonly finishBatch: (batchId: string) => Promise<boolean>;
}

interface GroupKey {
  readonly batchId: string;
  readonly position: number;
}

type LearningActivities = Pick<Activities, 'lookAtLearning' | 'openBatch' | 'learnGroup' | 'consolidateGroup' | 'finishBatch'>;

export function createLearningActivities(deps: LearningActivityDeps): LearningActivities {
  return {
    lookAtLearning: ({ project_id: projectId }) => withHeartbeats(async () => toPollResult(await deps.checkLearning(projectId))),
    openBatch: ({ batch_id: batchId }) =>
      withHeartbeats(async () => {
        const groups = await deps.openBatch(batchId);
        return { groups: groups.map(({ position, waitMs }) => ({ position, waitMs: Math.ceil(waitMs) })) };
      }),
    learnGroup: ({ batch_id: batchId, position }) =>
      withHeartbeats(async () => toPollResult(await deps.learnGroup({ batchId, position }, cancellationSignal()))),
    consolidateGroup: ({ batch_id: batchId, position }) =>
      withHeartbeats(async () => toPollResult(await deps.consolidateGroup({ batchId, position }, cancellationSignal()))),
    finishBatch: ({ batch_id: batchId }) => withHeartbeats(async () => ({ finished: await deps.finishBatch(batchId) })),
  };
}
