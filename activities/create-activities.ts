/** All activities. `jobs/worker/wrap-activities.ts` makes their errors safe for histories when they are registered. */
import type { Activities } from '../workflows/contract.ts';
import { type CleanupActivityDeps, createCleanupActivities } from './cleanup.ts';
import { type ConversationActivityDeps, createConversationActivities } from './conversations.ts';
import { createEmbeddingActivities, type EmbeddingActivityDeps } from './embeddings.ts';
import { createErasureActivities, type ErasureActivityDeps } from './erasures.ts';
import { createLearningActivities, type LearningActivityDeps } from './learning.ts';
import { createVideoActivities, type VideoActivityDeps } from './videos.ts';

export interface ActivityDeps {
  readonly cleanup: CleanupActivityDeps;
  readonly memory: ConversationActivityDeps;
  readonly embeddings: EmbeddingActivityDeps;
  readonly erasures: ErasureActivityDeps;
  readonly learning: LearningActivityDeps;
  readonly videos: VideoActivityDeps;
}

export function createActivities(deps: ActivityDeps): Activities {
  return {
    ...createCleanupActivities(deps.cleanup),
    ...createConversationActivities(deps.memory),
    ...createEmbeddingActivities(deps.embeddings),
    ...createErasureActivities(deps.erasures),
    ...createLearningActivities(deps.learning),
    ...createVideoActivities(deps.videos),
  };
}
