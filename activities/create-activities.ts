/**
 * Creates all activities. Each activity passes ids to a function elsewhere, and returns only ids, counts and kinds.
 * `temporal/worker/wrap-activities.ts` makes sure that their errors are safe to store in workflow histories.
 */
import { activityInfo, Context, cancellationSignal } from '@temporalio/activity';
import type { CloseIdle } from '../src/memory/conversations/close-idle.ts';
import type { Episodes } from '../src/memory/conversations/episodes.ts';
import type { ErasureSteps } from '../src/memory/erasure/erasure-steps.ts';
import type { BatchRun } from '../src/memory/learning/replay.ts';
import type {
  Activities,
  BatchFinish,
  EmbedProgress,
  GroupStepResult,
  LearningCheckResult,
  LearningGroupInput,
  PendingGroup,
  PendingGroups,
  VideoPollResult,
} from '../workflows/contract.ts';
import { type CleanupActivityDeps, createCleanupActivities } from './cleanup.ts';
import { withHeartbeats } from './heartbeats.ts';

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

export interface ConversationActivityDeps extends Pick<Episodes, 'closeConversation'> {
  readonly closeIdle: CloseIdle;
  /** Returns the idle time after which a conversation is closed, as currently configured. */
  readonly idleMs: () => number;
}

/**
 * Creates the activities that check for idle conversations. Workflows run them as local activities, so they don't send
 * heartbeats.
 */
export function createConversationActivities({ idleMs, closeConversation, closeIdle }: ConversationActivityDeps) {
  return {
    readIdleConversations: async ({ project_id: projectId, run }) =>
      copyResult(await closeIdle({ projectId, run, idleMs: idleMs() }), 'read', 'waiting'),
    readConversation: async ({ conversation_id: conversationId, opened }) =>
      copyResult(await closeConversation({ conversationId, opened, idleMs: idleMs() })),
  } satisfies Partial<Activities>;
}

interface EmbeddingActivityDeps {
  /** Embeds passages of a project. Returns after a few minutes at most, even if there are more. */
  readonly embedPassages: (projectId: string, run: number, signal: AbortSignal) => Promise<EmbedProgress>;
}

function createEmbeddingActivities({ embedPassages }: EmbeddingActivityDeps) {
  return {
    embedPassages: ({ project_id: projectId, run }) =>
      withHeartbeats(async () => copyResult(await embedPassages(projectId, run, cancellationSignal()), 'passages', 'reason')),
  } satisfies Partial<Activities>;
}

export function createErasureActivities({ checkProcesses, purgeRuns, finish }: ErasureSteps) {
  return {
    lookAtErasure: ({ erasure_id: id }) => withHeartbeats(async () => copyResult(await checkProcesses(id), 'ready', 'total', 'missing')),
    purgeErasedRuns: ({ erasure_id: id }) => withHeartbeats(async () => copyResult(await purgeRuns(id, cancellationSignal()))),
    finishErasure: ({ erasure_id: id }) => withHeartbeats(() => finish(id)),
  } satisfies Partial<Activities>;
}

type GroupStep = (group: BatchRun & { readonly position: number }, signal: AbortSignal) => Promise<GroupStepResult>;

export interface LearningActivityDeps {
  readonly checkLearning: (projectId: string) => Promise<LearningCheckResult>;
  readonly openBatch: (run: BatchRun) => Promise<PendingGroups>;
  readonly learnGroup: GroupStep;
  readonly consolidateGroup: GroupStep;
  readonly finishBatch: (run: BatchRun) => Promise<BatchFinish>;
  /** Replays the failed batches of a project and returns how many there were. */
  readonly replayBatches: (projectId: string) => Promise<number>;
  readonly stopping: AbortSignal;
}

/**
 * Returns a signal that aborts when the worker stops, but not merely because the run has ended. By then we've already
 * paid for the model call, so we finish it and store the response, and the run that takes over waits for it.
 *
 * We need `stopping` as well, because the SDK cancels an activity only once. If the run ends first, the signal of the
 * SDK wouldn't tell us about a later stop of the worker.
 */
function signalOfStep(stopping: AbortSignal): AbortSignal {
  const context = Context.current();
  const controller = new AbortController();
  context.cancellationSignal.addEventListener('abort', () => {
    const { notFound = false, cancelRequested = false } = context.cancellationDetails ?? {};
    if (!notFound && !cancelRequested) controller.abort();
  });
  return AbortSignal.any([controller.signal, stopping]);
}

const learningFacts = ['memoryOff', 'messages', 'batchOf', 'batch', 'failed', 'failing', 'stopped', 'blocked'] as const;

export function createLearningActivities(deps: LearningActivityDeps) {
  const currentRun = (batchId: string): BatchRun => ({ batchId, runId: activityInfo().workflowExecution?.runId ?? '' });
  const runStep =
    (step: GroupStep) =>
    ({ batch_id: batchId, position }: LearningGroupInput): Promise<GroupStepResult> =>
      withHeartbeats(async () => {
        const result = await step({ ...currentRun(batchId), position }, signalOfStep(deps.stopping));
        return copyResult(result, 'outcome', 'code', 'written', 'attempts', 'blocked', 'unusable');
      });

  return {
    lookAtLearning: ({ project_id: projectId }) =>
      withHeartbeats(async () => copyResult(await deps.checkLearning(projectId), ...learningFacts)),
    openBatch: ({ batch_id: batchId }) =>
      withHeartbeats(async () => {
        const { groups, total } = await deps.openBatch(currentRun(batchId));
        return { groups: groups.map(toPendingGroup), total };
      }),
    learnGroup: runStep(deps.learnGroup),
    consolidateGroup: runStep(deps.consolidateGroup),
    finishBatch: ({ batch_id: batchId }) =>
      withHeartbeats(async () => {
        const run = currentRun(batchId);
        return { ...(await deps.finishBatch(run)), runId: run.runId };
      }),
    replayBatches: ({ project_id: projectId }) => withHeartbeats(async () => ({ batches: await deps.replayBatches(projectId) })),
  } satisfies Partial<Activities>;
}

function toPendingGroup({ position, waitMs, attempts, step, code, blocked }: PendingGroup): PendingGroup {
  const wait = waitMs > 0 && step && { step, code: code ?? null, blocked: blocked ?? false };
  return { position, waitMs: Math.ceil(waitMs), attempts, ...wait };
}

export interface VideoActivityDeps {
  /**
   * Asks the vendor for the state of a video, and settles its cost once it has ended. `callId` is the call that started
   * it.
   */
  readonly pollVideo: (callId: string, signal: AbortSignal) => Promise<VideoPollResult>;
}

export function createVideoActivities({ pollVideo }: VideoActivityDeps) {
  return {
    pollVideo: ({ call_id: callId }) =>
      withHeartbeats(async () => copyResult(await pollVideo(callId, cancellationSignal()), 'outcome', 'code', 'unreachable', 'giveUpMs')),
  } satisfies Partial<Activities>;
}

type NamesOf<Result> = Result extends unknown ? Exclude<keyof Result & string, 'kind' | 'waitMs'> : never;
type Copied<Result, Name> = Result extends unknown ? Pick<Result, Extract<keyof Result, 'kind' | 'waitMs' | Name>> : never;

/**
 * Copies only the kind, the delay and the named members of a result, so nothing else ends up in the workflow's history.
 * Milliseconds are rounded up.
 */
function copyResult<Result extends { readonly kind: string }, Name extends NamesOf<Result> = never>(
  result: Result,
  ...names: readonly Name[]
): Copied<Result, Name> {
  const wanted: readonly string[] = ['kind', 'waitMs', ...names];
  const members = Object.entries(result).filter(([name, value]) => wanted.includes(name) && value !== undefined);
  const rounded = members.map(([name, value]) => [name, name.endsWith('Ms') ? Math.ceil(Number(value)) : value]);
  return Object.fromEntries(rounded) as Copied<Result, Name>;
}
