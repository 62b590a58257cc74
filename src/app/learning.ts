/** Connects the activities and routes for learning to the modules that implement them. */
import type { BackoffPolicy } from '../core/backoff.ts';
import { isUuid } from '../core/ids.ts';
import type { Database } from '../db/database.ts';
import { type BatchesOptions, createBatches } from '../memory/learning/batches.ts';
import { createBatchStarter } from '../memory/learning/begin-batch.ts';
import { createGroups } from '../memory/learning/groups.ts';
import { createConsolidateGroup, createLearnGroup, type MemoryModel } from '../memory/learning/learn-group.ts';
import { createRemember } from '../memory/learning/remember.ts';
import { closeEndedBatch, findOpenBatches, replayProject } from '../memory/learning/replay.ts';
import { signalAllBatches, signalBatches } from '../memory/triggers/learning-triggers.ts';
import type { Logger } from '../observability/logger.ts';
import type { WorkOfRuns } from '../temporal/closed-runs.ts';
import type { AppBase } from './base.ts';

export type Learning = ReturnType<typeof createLearning>;

interface LearningDeps extends Pick<AppBase, 'database' | 'clock' | 'logger'> {
  readonly model: MemoryModel;
  readonly retry: () => BackoffPolicy;
  readonly uiUrl: BatchesOptions['uiUrl'];
}

/**
 * Signals learning batches that settings have changed, because they may have been waiting for that. A `projectId` of
 * null stands for all projects. This runs in the background and is best effort, since batches that miss the signal
 * notice the change on their next retry.
 */
export function signalWaitingBatches(database: Database, logger: Logger, projectId: string | null): void {
  const signalling = projectId === null ? signalAllBatches(database) : database.transaction((tx) => signalBatches(tx, projectId));
  signalling.catch((error: unknown) =>
    logger.warn({ err: error }, 'failed to signal learning batches; they will pick up the settings on their next retry'),
  );
}

export function createLearning({ database, clock, model, retry, uiUrl, logger }: LearningDeps) {
  const { checkLearning } = createBatchStarter({ database, clock });
  const groups = createGroups({ database, clock, retry, logger });
  const groupDeps = { database, clock, groups, model };
  return {
    activities: {
      checkLearning,
      openBatch: groups.open,
      learnGroup: createLearnGroup(groupDeps),
      consolidateGroup: createConsolidateGroup(groupDeps),
      finishBatch: groups.finish,
      replayBatches: async (projectId: string) => (await replayProject(database, projectId, 'failed')).length,
    },
    remember: createRemember({ database, clock }),
    hasModel: (projectId: string) => model.hasRoute(projectId, 'extract'),
    batches: createBatches({ database, uiUrl }),
    batchRuns: createBatchRuns({ database, clock, logger }),
  };
}

function createBatchRuns({ database, clock, logger }: Pick<LearningDeps, 'database' | 'clock' | 'logger'>): WorkOfRuns {
  return {
    async filterOpen(runs) {
      const batches = runs.flatMap(({ workflowId, runId }) => {
        const batchId = batchIdOf(workflowId);
        return batchId === null ? [] : [{ batchId, runId }];
      });
      const open = new Set((await findOpenBatches(database, batches)).map(({ runId }) => runId));
      return runs.filter(({ runId }) => open.has(runId));
    },
    async close({ workflowId, runId, byOperator }) {
      const batchId = batchIdOf(workflowId);
      if (batchId === null) return;
      const state = byOperator ? 'stopped' : 'failed';
      const closed = await closeEndedBatch({ database, clock }, { batchId, runId, state });
      if (closed)
        logger.warn({ batch: batchId, project: closed.project, runId, state }, 'learning batch closed because its run ended in Temporal');
    },
    async isOpen(workflowId) {
      const batchId = batchIdOf(workflowId);
      return batchId !== null && (await findOpenBatches(database, [{ batchId, runId: null }])).length > 0;
    },
  };
}

function batchIdOf(workflowId: string): string | null {
  const id = workflowId.slice(workflowId.lastIndexOf('/') + 1);
  return isUuid(id) ? id : null;
}
