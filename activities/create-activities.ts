/** All activities, made from the rooms they work in. What they throw is made safe where they are registered (`jobs/wrap-activities.ts`). */
import type { Activities } from '../workflows/contract.ts';
import { type CleanupRooms, createCleanupActivities } from './cleanup.ts';
import { type ConversationRooms, createConversationActivities } from './conversations.ts';
import { createEmbeddingActivities, type EmbeddingRooms } from './embeddings.ts';
import { createErasureActivities, type ErasureRooms } from './erasures.ts';
import { createLearningActivities, type LearningRooms } from './learning.ts';
import { createVideoActivities, type VideoRooms } from './videos.ts';

export interface ActivityRooms {
  readonly cleanup: CleanupRooms;
  readonly memory: ConversationRooms;
  readonly embeddings: EmbeddingRooms;
  readonly erasures: ErasureRooms;
  readonly learning: LearningRooms;
  readonly videos: VideoRooms;
}

export function createActivities(rooms: ActivityRooms): Activities {
  return {
    ...createCleanupActivities(rooms.cleanup),
    ...createConversationActivities(rooms.memory),
    ...createEmbeddingActivities(rooms.embeddings),
    ...createErasureActivities(rooms.erasures),
    ...createLearningActivities(rooms.learning),
    ...createVideoActivities(rooms.videos),
  };
}
