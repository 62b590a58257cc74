/** Durable learning, joined of the rooms that know: what its activities do, and what its routes ask. */
import type { LearningRooms } from '../../activities/learning.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { type Batches, createBatches } from '../memory/learning/batches.ts';
import { type BeginBatches, createBeginBatches } from '../memory/learning/begin-batch.ts';
import { createGroups, type RetryPolicy } from '../memory/learning/groups.ts';
import { createConsolidateGroup, createLearnGroup, type MemoryModel } from '../memory/learning/learn-group.ts';
import { wakeAllBatches } from '../memory/learning/reenqueue-learning.ts';
import { wakeBatches } from '../memory/triggers/learning-triggers.ts';
import type { Logger } from '../observability/logger.ts';

export interface LearningParts {
  readonly database: Database;
  readonly clock: Clock;
  readonly model: MemoryModel;
  readonly retry: () => RetryPolicy;
}

export interface Learning {
  readonly activities: LearningRooms;
  readonly remember: BeginBatches['remember'];
  readonly batches: Batches;
}

/**
 * Tells the batches of a project, or all, that settings have changed, in the background: what a batch waits for may be there now. Should it
 * fail, they find out by themselves, later.
 */
export function wakeWaitingBatches(database: Database, logger: Logger, projectId: string | null): void {
  const waking = projectId === null ? wakeAllBatches(database) : database.transaction((tx) => wakeBatches(tx, projectId));
  waking.catch((error: unknown) => logger.warn({ err: error }, 'learning batches could not be told of new settings'));
}

export function createLearning({ database, clock, model, retry }: LearningParts): Learning {
  const { lookAtLearning, remember } = createBeginBatches({ database, clock });
  const groups = createGroups({ database, clock, retry });
  const parts = { database, clock, groups, model };
  return {
    activities: {
      lookAtLearning,
      openBatch: groups.open,
      learnGroup: createLearnGroup(parts),
      consolidateGroup: createConsolidateGroup(parts),
      finishBatch: groups.finish,
    },
    remember,
    batches: createBatches({ database }),
  };
}
