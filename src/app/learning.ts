/** Durable learning, joined of the rooms that know: what its activities do, and what its routes ask. */
import type { LearningActivityDeps } from '../../activities/learning.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { type Batches, createBatches } from '../memory/learning/batches.ts';
import { type BatchStarter, createBatchStarter } from '../memory/learning/begin-batch.ts';
import { createGroups, type RetryPolicy } from '../memory/learning/groups.ts';
import { createConsolidateGroup, createLearnGroup, type MemoryModel } from '../memory/learning/learn-group.ts';
import { signalAllBatches } from '../memory/learning/reenqueue-learning.ts';
import { signalBatches } from '../memory/triggers/learning-triggers.ts';
import type { Logger } from '../observability/logger.ts';

export interface LearningDeps {
  readonly database: Database;
  readonly clock: Clock;
  readonly model: MemoryModel;
  readonly retry: () => RetryPolicy;
}

export interface Learning {
  readonly activities: LearningActivityDeps;
  readonly remember: BatchStarter['remember'];
  readonly batches: Batches;
}

/**
 * Tells the batches of a project, or all, that settings have changed, in the background: what a batch waits for may be there now. Should it
 * fail, they find out by themselves, later.
 */
export function signalWaitingBatches(database: Database, logger: Logger, projectId: string | null): void {
  const signalling = projectId === null ? signalAllBatches(database) : database.transaction((tx) => signalBatches(tx, projectId));
  signalling.catch((error: unknown) => logger.warn({ err: error }, 'learning batches could not be told of new settings'));
}

export function createLearning({ database, clock, model, retry }: LearningDeps): Learning {
  const { checkLearning: lookAtLearning, remember } = createBatchStarter({ database, clock });
  const groups = createGroups({ database, clock, retry });
  const groupDeps = { database, clock, groups, model };
  return {
    activities: {
      checkLearning: lookAtLearning,
      openBatch: groups.open,
      learnGroup: createLearnGroup(groupDeps),
      consolidateGroup: createConsolidateGroup(groupDeps),
      finishBatch: groups.finish,
    },
    remember,
    batches: createBatches({ database }),
  };
}
