/**
 * The steps of the daily cleanup. The first ones delete data that we aren't allowed to keep, and the last ones only
 * improve performance.
 */
import type { CleanupStep } from '../../activities/cleanup.ts';
import { deleteExpiredBatch } from '../ceilings/expired-counters.ts';
import type { Config } from '../config/config.ts';
import { createPromptConverter } from '../memory/conversations/convert-prompts.ts';
import { deleteEmptyErasures } from '../memory/erasure/delete-empty.ts';
import { createRetention, deleteInFirstDueProject } from '../memory/erasure/retention.ts';
import { reindexOutdated } from '../memory/indexing/reindex.ts';
import { buildVectorIndex } from '../memory/indexing/vector-indexes.ts';
import { refreshAllWordStatistics } from '../memory/indexing/word-statistics.ts';
import { deleteExpiredSignIns } from '../people/delete-expired.ts';
import { deleteExpiredRuleHits } from '../projects/rule-hits.ts';
import { deleteUndeliverableRows } from '../temporal/outbox/outbox-rows.ts';
import { deleteExpiredErrors } from '../usage/attempt-errors.ts';
import { deleteExpiredRefusals } from '../usage/refusals/store-refusals.ts';
import { deleteExpiredVideos } from '../videos/delete-expired.ts';
import type { AppBase } from './base.ts';

export interface CleanupDeps extends Pick<AppBase, 'database' | 'clock' | 'logger'> {
  readonly periods: () => Pick<Config, 'errorRetentionMs' | 'refusedCallRetentionMs'>;
}

export function createCleanupSteps({ database, clock, logger, periods: configured }: CleanupDeps): readonly CleanupStep[] {
  const retention = createRetention({ database, clock });
  /**
   * Deletes the vendors' error messages of failed calls. They can quote prompts, so they never outlive the prompts of
   * their project, even if their configured retention is longer.
   */
  const deleteErrors = async (): Promise<number> => {
    const before = clock.now() - configured().errorRetentionMs;
    const deleted = await deleteExpiredErrors(database, { projectId: null, before });
    if (deleted > 0) return deleted;
    return deleteInFirstDueProject({ database, clock }, (tx, { projectId, before: end }) =>
      deleteExpiredErrors(tx, { projectId, before: end.getTime() }),
    );
  };
  return [
    { name: 'deletion-periods', run: retention.periods },
    { name: 'conversations', run: retention.conversations },
    { name: 'loose-prompts', run: retention.unfiledPrompts },
    { name: 'released-parts', run: retention.releasedParts },
    { name: 'closed-memories', run: async () => (await retention.closedItems()) || retention.endedFacts() },
    { name: 'batches', run: retention.batches },
    { name: 'empty-erasures', run: () => deleteEmptyErasures(database, clock) },
    { name: 'attempt-errors', run: deleteErrors },
    { name: 'refused-calls', run: () => deleteExpiredRefusals(database, clock.now() - configured().refusedCallRetentionMs) },
    { name: 'videos', run: () => deleteExpiredVideos(database, clock) },
    { name: 'counters', run: () => deleteExpiredBatch(database, clock) },
    { name: 'sign-ins', run: () => deleteExpiredSignIns(database, clock) },
    { name: 'rule-hits', run: () => deleteExpiredRuleHits(database, clock) },
    { name: 'outbox', run: () => deleteUndeliverableRows({ database, logger }) },
    { name: 'old-prompts', run: createPromptConverter({ database, clock, logger }) },
    { name: 'old-words', run: () => reindexOutdated(database) },
    { name: 'words', run: (signal) => refreshAllWordStatistics(database, clock, signal) },
    { name: 'vector-indexes', run: (signal) => buildVectorIndex(database, signal) },
  ];
}
