/** Connects durable work to the modules that implement its activities or re-enqueue unfinished work. */
import { type ActivityDeps, createActivities } from '../../activities/create-activities.ts';
import type { Activities } from '../../workflows/contract.ts';
import { cacheDirectory } from '../config/cache-directory.ts';
import type { Environment } from '../config/environment.ts';
import { readTemporalConnection } from '../config/temporal-settings.ts';
import { reenqueueIdleTimers } from '../memory/conversations/idle-timer.ts';
import { reenqueueErasures } from '../memory/erasure/erasure-steps.ts';
import { reenqueueEmbeddings } from '../memory/triggers/embedding-runs.ts';
import { reenqueueLearning } from '../memory/triggers/learning-triggers.ts';
import { type Durable, type DurableOptions, startDurable } from '../temporal/durable.ts';
import { reenqueueVideoPolls } from '../videos/videos.ts';
import type { AppBase } from './base.ts';
import { createCleanupSteps } from './cleanup.ts';
import type { ConfigSnapshot } from './config-snapshot.ts';
import type { Learning } from './learning.ts';
import type { Memory } from './memory.ts';

interface DurableWorkDeps extends AppBase, Pick<DurableOptions, 'role' | 'graceMs' | 'onReady'>, Pick<ActivityDeps, 'erasures' | 'videos'> {
  readonly environment: Environment;
  readonly memory: Memory;
  readonly learning: Pick<Learning, 'activities' | 'batchRuns'>;
  readonly interceptActivities: (activities: Activities) => Activities;
}

/**
 * Loads the worker part of Temporal's SDK, which is half of what a worker process loads. We re-export it because app.ts
 * imports this module dynamically. If it imported `temporal-worker.ts` statically, processes without durable work would
 * load that file as well.
 */
export { loadWorkerSdk } from '../temporal/worker/temporal-worker.ts';

/** Returns a function that returns the current payload keys, because a reload can change them. */
function createPayloadKeys(snapshot: () => ConfigSnapshot): () => readonly Uint8Array[] {
  let source: readonly string[] = [];
  let keys: readonly Uint8Array[] = [];
  return () => {
    const { payloadKeys } = snapshot().config.temporal;
    if (payloadKeys !== source) [source, keys] = [payloadKeys, payloadKeys.map((key) => Buffer.from(key, 'base64'))];
    return keys;
  };
}

export function startDurableWork(deps: DurableWorkDeps): Durable {
  const { snapshot, environment, clock, memory, erasures, learning, videos, interceptActivities, database, ...options } = deps;
  const stopping = new AbortController();
  const idleMs = (): number => snapshot().config.memory.idleMs;
  const periods = () => snapshot().config;
  const activities = createActivities({
    cleanup: { steps: createCleanupSteps({ database, clock, logger: options.logger, periods }) },
    memory: { idleMs, closeConversation: memory.episodes.closeConversation, closeIdle: memory.closeIdle },
    embeddings: { embedPassages: memory.embedPassages },
    erasures,
    learning: { ...learning.activities, stopping: stopping.signal },
    videos,
  });
  const durable = startDurable({
    ...options,
    database,
    clock,
    batches: learning.batchRuns,
    temporal: { ...readTemporalConnection(snapshot().config.temporal), payloadKeys: createPayloadKeys(snapshot) },
    environment: { path: environment.PATH ?? '', cacheDir: cacheDirectory(environment), variables: environment },
    activities: interceptActivities(activities),
    async reenqueueUnfinished() {
      await reenqueueIdleTimers(database);
      await reenqueueEmbeddings(database, memory.embeddingModelOf);
      await reenqueueLearning(database);
      await reenqueueVideoPolls(database);
      await reenqueueErasures(database);
    },
    startDelayMs: (workflow) => (workflow === 'idleConversations' || workflow === 'conversationIdle' ? idleMs() : 0),
  });
  return {
    ...durable,
    async stop() {
      const timer = setTimeout(() => stopping.abort(), options.graceMs);
      await durable.stop().finally(() => clearTimeout(timer));
    },
  };
}
