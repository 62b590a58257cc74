/** Activities of the workflows `projectLearning` and `learningBatch`: memory's own functions, with heartbeats. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, LearningLook, LearningStep, OpenBatch } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface LearningRooms {
  readonly lookAtLearning: (projectId: string) => Promise<LearningLook>;
  readonly openBatch: (batchId: string) => Promise<OpenBatch['groups']>;
  readonly learnGroup: (group: GroupName, signal: AbortSignal) => Promise<LearningStep>;
  readonly consolidateGroup: (group: GroupName, signal: AbortSignal) => Promise<LearningStep>;
  /** False: a group is open. */
  readonly finishBatch: (batchId: string) => Promise<boolean>;
}

interface GroupName {
  readonly batchId: string;
  readonly position: number;
}

type LearningActivities = Pick<Activities, 'lookAtLearning' | 'openBatch' | 'learnGroup' | 'consolidateGroup' | 'finishBatch'>;

/** Results are made member by member: what else memory may return is none of Temporal's business. */
export function createLearningActivities(rooms: LearningRooms): LearningActivities {
  return {
    lookAtLearning: ({ project_id: projectId }) => withHeartbeats(async () => lookOf(await rooms.lookAtLearning(projectId))),
    openBatch: ({ batch_id: batchId }) =>
      withHeartbeats(async () => {
        const groups = await rooms.openBatch(batchId);
        return { groups: groups.map(({ position, waitMs }) => ({ position, waitMs: Math.ceil(waitMs) })) };
      }),
    learnGroup: ({ batch_id: batchId, position }) =>
      withHeartbeats(async () => stepOf(await rooms.learnGroup({ batchId, position }, cancellationSignal()))),
    consolidateGroup: ({ batch_id: batchId, position }) =>
      withHeartbeats(async () => stepOf(await rooms.consolidateGroup({ batchId, position }, cancellationSignal()))),
    finishBatch: ({ batch_id: batchId }) => withHeartbeats(async () => ({ finished: await rooms.finishBatch(batchId) })),
  };
}

function lookOf(look: LearningLook): LearningLook {
  return look.kind === 'wait' ? { kind: 'wait', waitMs: Math.ceil(look.waitMs) } : { kind: look.kind };
}

function stepOf(step: LearningStep): LearningStep {
  return step.kind === 'wait' ? { kind: 'wait', waitMs: Math.ceil(step.waitMs) } : { kind: 'settled' };
}
