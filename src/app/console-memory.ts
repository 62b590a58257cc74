/** Connects the console's pages about memory to their modules. */
import { createBatchRoutes } from '../console/batches/routes.ts';
import { createConversationRoutes } from '../console/conversations/routes.ts';
import { createErasureRoutes } from '../console/erasure/routes.ts';
import type { ConsoleRoute } from '../console/frame/route.ts';
import { createMemoryPagesRoutes } from '../console/memory/routes.ts';
import { createSettingsRoutes } from '../console/settings/routes.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { previewErasure } from '../memory/erasure/erasure-preview.ts';
import { findErasure, listErasures } from '../memory/erasure/erasure-report.ts';
import { measureLearningLag } from '../memory/learning/learning-lag.ts';
import { readNextBatch } from '../memory/learning/next-batch.ts';
import { countKeptUnlearned, previewRetention } from '../memory/records/deletion-rule.ts';
import { findPersonNames } from '../people/person-names.ts';
import { backgroundCaller } from '../pipeline/call/internal-call.ts';
import type { ConfigSnapshot } from './config-snapshot.ts';
import type { Learning } from './learning.ts';
import type { EraseSubject, Memory } from './memory.ts';

interface MemoryAreasDeps {
  readonly database: Database;
  readonly memory: Memory;
  readonly learning: Learning;
  readonly eraseSubject: EraseSubject;
  readonly snapshot: () => ConfigSnapshot;
  /** Runs a query after this process has stored its calls. */
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
  readonly clock: Clock;
}

export function memoryAreas({
  snapshot,
  database,
  memory,
  learning,
  eraseSubject,
  readStored,
  clock,
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
