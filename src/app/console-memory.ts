import { createBatchRoutes } from '../console/batches/routes.ts';
import { createConversationRoutes } from '../console/conversations/routes.ts';
import type { EndUserDeps } from '../console/end-users/deps.ts';
import { createEndUserRoutes } from '../console/end-users/routes.ts';
import { createErasureRoutes } from '../console/erasure/routes.ts';
import type { ConsoleRoute } from '../console/frame/route.ts';
import { createMemoryPagesRoutes } from '../console/memory/routes.ts';
import { createSettingsRoutes } from '../console/settings/routes.ts';
import { findSubjects } from '../memory/conversations/find-subjects.ts';
import { previewErasure } from '../memory/erasure/erasure-preview.ts';
import { findErasure, listErasures } from '../memory/erasure/erasure-report.ts';
import { measureLearningLag } from '../memory/learning/learning-lag.ts';
import { readNextBatch } from '../memory/learning/next-batch.ts';
import { countKeptUnlearned, previewRetention } from '../memory/records/deletion-rule.ts';
import { findPersonNames } from '../people/person-names.ts';
import { backgroundCaller } from '../pipeline/call/internal-call.ts';
import type { ConsoleDeps } from './console-deps.ts';

interface MemoryAreasDeps
  extends Pick<ConsoleDeps, 'snapshot' | 'database' | 'memory' | 'learning' | 'eraseSubject' | 'readStored' | 'clock'> {
  readonly analytics: EndUserDeps['analytics'];
}

export function memoryAreas({
  snapshot,
  database,
  memory,
  learning,
  eraseSubject,
  readStored,
  clock,
  analytics,
}: MemoryAreasDeps): readonly ConsoleRoute[] {
  const { items, settings } = memory;
  const findNames = (ids: readonly string[]) => findPersonNames(database, ids);
  return [
    ...createMemoryPagesRoutes({
      queries: database,
      items,
      writeItem: items.write,
      search: (projectId, request) => readStored(() => memory.searchAs(backgroundCaller(projectId), request)),
      explainRecall: (projectId, request) => memory.explainRecall({ caller: backgroundCaller(projectId), ...request }),
      findFacts: memory.findFacts,
      findNames,
    }),
    ...createConversationRoutes({ queries: database, readStored, remember: learning.remember }),
    ...createBatchRoutes({
      batches: learning.batches,
      readNextBatch: async (projectId) => readNextBatch(database, projectId, await settings.read(projectId)),
      readLagMs: (projectId) => measureLearningLag(database, { projectId, idleMs: snapshot().config.memory.idleMs }),
    }),
    ...createSettingsRoutes({
      settings,
      previewRetention: (projectId, { delete_conversations_after_days: days, delete_unlearned: unlearned }, at) =>
        previewRetention({ database, clock: { now: () => at } }, projectId, days, unlearned),
      countKeptUnlearned: (projectId) => countKeptUnlearned({ database, clock }, projectId),
      hasMemoryModel: (projectId) => learning.hasModel(projectId),
    }),
    ...createEndUserRoutes({
      ...{ queries: database, analytics, readStored },
      findSubjects: (projectId, hashes) => findSubjects(database, projectId, hashes),
    }),
    ...createErasureRoutes({
      preview: (projectId, subject) => readStored(() => previewErasure(database, projectId, subject)),
      erase: (projectId, subject, askedBy) => eraseSubject({ projectId, subject, askedBy }),
      listErasures: (projectId, limit, before) => listErasures(database, projectId, limit, before),
      findErasure: (projectId, id) => findErasure(database, projectId, id),
      exportMemory: memory.exportMemory,
      findNames,
    }),
  ];
}
