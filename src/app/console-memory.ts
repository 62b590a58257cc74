import { createBatchRoutes } from '../console/batches/routes.ts';
import { createConversationDetailRoutes } from '../console/conversations/conversation-detail.ts';
import { createConversationListRoutes } from '../console/conversations/conversation-list.ts';
import type { EndUserDeps } from '../console/end-users/deps.ts';
import { createEndUserRoutes } from '../console/end-users/routes.ts';
import { createErasureRoutes } from '../console/erasure/routes.ts';
import type { ConsoleRoute } from '../console/frame/route.ts';
import { createMemoryPagesRoutes } from '../console/memory/routes.ts';
import { createSettingsRoutes } from '../console/settings/routes.ts';
import { measureLearningLag } from '../memory/learning/learning-lag.ts';
import { readNextBatch } from '../memory/learning/next-batch.ts';
import { findPersonNames } from '../people/person-names.ts';
import { backgroundCaller } from '../pipeline/call/internal-call.ts';
import type { ConsoleDeps } from './console-deps.ts';

interface MemoryAreasDeps
  extends Pick<ConsoleDeps, 'snapshot' | 'database' | 'memory' | 'learning' | 'eraseSubject' | 'readStored' | 'clock'> {
  readonly analytics: EndUserDeps['analytics'];
}

export function memoryAreas(deps: MemoryAreasDeps): readonly ConsoleRoute[] {
  const { snapshot, database, memory, learning, eraseSubject, readStored, clock, analytics } = deps;
  const { items, settings } = memory;
  return [
    ...createMemoryPagesRoutes({
      queries: database,
      items,
      search: (projectId, request) => readStored(() => memory.searchAs(backgroundCaller(projectId), request), projectId),
      explainRecall: (projectId, request) => memory.explainRecall({ caller: backgroundCaller(projectId), ...request }),
      findFacts: memory.findFacts,
      findNames: (ids) => findPersonNames(database, ids),
    }),
    ...createConversationListRoutes({ queries: database, readStored }),
    ...createConversationDetailRoutes({ queries: database, readStored, remember: learning.remember }),
    ...createBatchRoutes({
      batches: learning.batches,
      readNextBatch: async (projectId) => readNextBatch(database, projectId, await settings.read(projectId)),
      readLagMs: (projectId) => measureLearningLag(database, { projectId, idleMs: snapshot().config.memory.idleMs }),
    }),
    ...createSettingsRoutes({ settings, queries: database, clock, hasMemoryModel: learning.hasModel }),
    ...createEndUserRoutes({ queries: database, analytics, readStored }),
    ...createErasureRoutes({ queries: database, readStored, eraseSubject, exportMemory: memory.exportMemory }),
  ];
}
