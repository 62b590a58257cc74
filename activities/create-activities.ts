/**
 * All activities: each passes ids to a function of a module and returns ids, counts and kinds only. `jobs/worker/wrap-activities.ts` makes
 * their errors safe for histories when they are registered.
 */
import { cancellationSignal } from '@temporalio/activity';
import type { Episodes } from '../src/memory/conversations/episodes.ts';
import type { ErasureSteps } from '../src/memory/erasure/erasure-steps.ts';
import type {
  Activities,
  GroupStepResult,
  LearningCheckResult,
  LearningGroupInput,
  PendingGroups,
  Progress,
  VideoPollResult,
} from '../workflows/contract.ts';
import { type CleanupActivityDeps, createCleanupActivities } from './cleanup.ts';
import { withHeartbeats } from './heartbeats.ts';
import { toPollResult } from './poll-result.ts';

export interface ActivityDeps {
  readonly cleanup: CleanupActivityDeps;
  readonly memory: ConversationActivityDeps;
  readonly embeddings: EmbeddingActivityDeps;
  readonly erasures: ErasureSteps;
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

export interface ConversationActivityDeps extends Pick<Episodes, 'readConversation'> {
  /** How long a conversation must be without calls to count as finished, by the current configuration. */
  readonly idleMs: () => number;
}

/** Without heartbeats: a local activity has none. */
export function createConversationActivities({ idleMs, readConversation }: ConversationActivityDeps) {
  return {
    readConversation: async ({ conversation_id: conversationId, opened }) =>
      toPollResult(await readConversation({ conversationId, opened, idleMs: idleMs() })),
  } satisfies Partial<Activities>;
}

interface EmbeddingActivityDeps {
  /** Embeds passages of a project for a few minutes at most. */
  readonly embedPassages: (projectId: string, run: number, signal: AbortSignal) => Promise<Progress>;
}

function createEmbeddingActivities({ embedPassages }: EmbeddingActivityDeps) {
  return {
    embedPassages: ({ project_id: projectId, run }) =>
      withHeartbeats(async () => ({ kind: (await embedPassages(projectId, run, cancellationSignal())).kind })),
  } satisfies Partial<Activities>;
}

export function createErasureActivities({ checkProcesses, purgeRuns, finish }: ErasureSteps) {
  return {
    lookAtErasure: ({ erasure_id: id }) => withHeartbeats(async () => toPollResult(await checkProcesses(id))),
    purgeErasedRuns: ({ erasure_id: id }) => withHeartbeats(async () => ({ kind: (await purgeRuns(id, cancellationSignal())).kind })),
    finishErasure: ({ erasure_id: id }) => withHeartbeats(() => finish(id)),
  } satisfies Partial<Activities>;
}

type GroupStep = (group: { readonly batchId: string; readonly position: number }, signal: AbortSignal) => Promise<GroupStepResult>;

export interface LearningActivityDeps {
  readonly checkLearning: (projectId: string) => Promise<LearningCheckResult>;
  readonly openBatch: (batchId: string) => Promise<PendingGroups['groups']>;
  readonly learnGroup: GroupStep;
  readonly consolidateGroup: GroupStep;
  /** False when a group is pending. */
  readonly finishBatch: (batchId: string) => Promise<boolean>;
}

export function createLearningActivities({ checkLearning, openBatch, learnGroup, consolidateGroup, finishBatch }: LearningActivityDeps) {
  const runStep =
    (step: GroupStep) =>
    ({ batch_id: batchId, position }: LearningGroupInput) =>
      withHeartbeats(async () => toPollResult(await step({ batchId, position }, cancellationSignal())));
  return {
    lookAtLearning: ({ project_id: projectId }) => withHeartbeats(async () => toPollResult(await checkLearning(projectId))),
    openBatch: ({ batch_id: batchId }) =>
      withHeartbeats(async () => {
        const groups = await openBatch(batchId);
        return { groups: groups.map(({ position, waitMs }) => ({ position, waitMs: Math.ceil(waitMs) })) };
      }),
    learnGroup: runStep(learnGroup),
    consolidateGroup: runStep(consolidateGroup),
    finishBatch: ({ batch_id: batchId }) => withHeartbeats(async () => ({ finished: await finishBatch(batchId) })),
  } satisfies Partial<Activities>;
}

export interface VideoActivityDeps {
  /** Polls the vendor for the video of this call, and settles it when it has ended. */
  readonly pollVideo: (callId: string, signal: AbortSignal) => Promise<VideoPollResult>;
}

export function createVideoActivities({ pollVideo }: VideoActivityDeps) {
  return {
    pollVideo: ({ call_id: callId }) => withHeartbeats(async () => toPollResult(await pollVideo(callId, cancellationSignal()))),
  } satisfies Partial<Activities>;
}
