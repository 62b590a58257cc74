/**
 * The contract between the gateway, its workflows and its activities: names, inputs and results. It doesn't import
 * anything, so that every module can import it.
 *
 * Everything in it is stored in Temporal's histories, so it only contains ids, counts and hashes, and never text.
 * Names, members and kinds are persisted, and changing one breaks running workflows.
 */

/** The task queue that all workers poll. */
export const memoryQueue = 'memory';

/** The result of an activity that wants to be called again after a delay. */
export interface Wait {
  readonly kind: 'wait';
  readonly waitMs: number;
}

/** The result of an activity that only does a part of its work each time. */
export interface Progress {
  /** `more` means that the workflow should call the activity again. */
  readonly kind: 'done' | 'more';
}

/** Search attributes of type Keyword. Temporal never encrypts them. */
export const searchAttributes = {
  /** The project id. */
  project: { name: 'GatewayProject', type: 'KEYWORD' },
  projectSlug: { name: 'GatewayProjectSlug', type: 'KEYWORD' },
  /** The first segment of the workflow id, e.g. `conversation`. */
  kind: { name: 'GatewayKind', type: 'KEYWORD' },
  /** See `run-status.ts`. */
  state: { name: 'GatewayState', type: 'KEYWORD' },
  /** The id of a learning batch. */
  batch: { name: 'GatewayBatch', type: 'KEYWORD' },
} as const;

/** The input of `idleConversations`. The member names are the same as in the outbox row. */
export interface IdleConversationsInput {
  readonly project_id: string;
  /** The sequence number of the project's runs. A run that has been superseded does nothing. */
  readonly run: number;
}

/** The result of a check for idle conversations. `read` is the number of conversations that it has closed. */
export type CloseIdleResult = { readonly read: number } & (
  | { readonly kind: 'done' } // no conversation is open
  | { readonly kind: 'superseded' } // a newer run has taken over, or the project was deleted
  | (Wait & { readonly waiting?: number }) // check again after this time, because `waiting` conversations are open
);

/**
 * The input of `conversationIdle`, which only older versions start. The member names are the same as in the outbox row.
 */
export interface ConversationIdleInput {
  readonly conversation_id: string;
  /** The number of the opening that this run is for. Each opening of a conversation has its own run. */
  readonly opened: number;
}

/** The result of checking whether a conversation is idle. */
export type IdleCheckResult =
  | { readonly kind: 'read' } // it was idle long enough and has been closed, now or earlier
  | { readonly kind: 'gone' } // it was deleted or erased
  | { readonly kind: 'superseded' } // it was opened again, and another run has taken over
  | Wait; // it isn't idle yet, so check again after this time

/** The input of `videoOperation`. The member name is the same as in the outbox row. */
export interface VideoOperationInput {
  /** The call that started the video. */
  readonly call_id: string;
}

/** The result of polling a video. */
export type VideoPollResult =
  | ({ readonly kind: 'settled' } & VideoEnd) // its cost has been settled
  | { readonly kind: 'gone' } // it was deleted
  | (Wait & {
      readonly unreachable: boolean;
      /** We give up on the video after this time. Missing in histories of older versions. */
      readonly giveUpMs?: number;
    }); // poll again after this time

/** The members are missing in histories of older versions. */
export interface VideoEnd {
  /** `unknown` means that the vendor has forgotten the operation without telling us its outcome. */
  readonly outcome: 'completed' | 'vendor_failed' | 'unknown';
  /** The vendor's error code if it failed. */
  readonly code: string | null;
}

/** The input of `embedMemory`. The member names are the same as in the outbox row. */
export interface EmbedMemoryInput {
  readonly project_id: string;
  /** The sequence number of the project's runs. A run that has been superseded does nothing. */
  readonly run: number;
}

export interface EmbedProgress extends Progress {
  /** The number of passages that this execution embedded. Missing in histories of older versions. */
  readonly passages: number;
  /**
   * Why there's nothing left to do even though passages may lack a vector: there's no model, or a newer run has taken
   * over.
   */
  readonly reason?: 'no_route' | 'superseded';
}

/** Tells a learning workflow that something has changed and it should check again now. */
export const wakeSignal = 'look';
/**
 * Makes the run of a project replay its failed batches. To replay a single batch, we send this signal to the run of
 * that batch, and start one if there's none.
 */
export const replaySignal = 'replay';

/** The input of `projectLearning`. The member name is the same as in the outbox row. */
export interface ProjectLearningInput {
  readonly project_id: string;
}

/** The result of checking whether a project has messages to learn. */
export type LearningCheckResult =
  | { readonly kind: 'gone' } // the project was deleted
  | ({ readonly kind: 'idle' } & LearningFacts) // there are no messages or memory is off, and a signal follows when that changes
  | ({ readonly kind: 'running' } & LearningFacts) // a normal batch is running, and sends a signal when it ends
  | (Wait & LearningFacts); // there are too few messages for a batch, so check again when the oldest is old enough

/** Shown to operators. Missing in histories of older versions. */
export interface LearningFacts {
  readonly memoryOff?: boolean;
  /** The number of messages that are waiting for a batch. `batchOf` is the number that makes one due. */
  readonly messages?: number;
  readonly batchOf?: number;
  /** The id of the normal batch that is running. */
  readonly batch?: string | null;
  /**
   * These count batches. Failed and stopped ones need a replay, failing ones are retried after unusable responses, and
   * blocked ones wait for a change of settings.
   */
  readonly failed?: number;
  readonly failing?: number;
  readonly stopped?: number;
  readonly blocked?: number;
}

/** The input of `learningBatch`. The member name is the same as in the outbox row. */
export interface LearningBatchInput {
  readonly batch_id: string;
}

/** A group of a batch, identified by its position. */
export interface LearningGroupInput extends LearningBatchInput {
  readonly position: number;
}

/** The groups of a batch that are neither done nor failed, and the delay until each one's next attempt. */
export interface PendingGroups {
  readonly groups: readonly PendingGroup[];
  /** The number of all groups in the batch. Missing in histories of older versions. */
  readonly total: number;
}

export interface PendingGroup {
  readonly position: number;
  readonly waitMs: number;
  /** The number of attempts so far. Missing in histories of older versions. */
  readonly attempts: number;
  /**
   * The step that is waiting. `code` and `blocked` contain the reason. All three are missing in histories of older
   * versions.
   */
  readonly step?: 'learnGroup' | 'consolidateGroup';
  readonly code?: string | null;
  readonly blocked?: boolean;
}

/** The result of a step of a group. */
export type GroupStepResult =
  | ({ readonly kind: 'settled' } & Partial<GroupOutcome>) // the step has no work left, because it's done, failed or erased
  | (Wait & GroupWait); // it failed or no tier has a chain, so retry after this time or on a signal

/** Shown to operators. Missing in histories of older versions, and if the step had nothing to do. */
export interface GroupOutcome {
  /** `parked` only occurs in histories of older versions, which gave up a group after five unusable responses. */
  readonly outcome: 'learned' | 'done' | 'parked';
  /** The error code of a parked group. */
  readonly code: string | null;
  readonly written: number;
}

/**
 * After this many unusable responses in a row, we show a group as failing and retry it less and less often, down to
 * once a day.
 */
export const maxUnusableResponses = 5;

/**
 * The code of a wait for a model call that an earlier run of the batch started before it was reset, terminated or
 * cancelled.
 */
export const callUnderWay = 'call_under_way';

/** The members are missing in histories of older versions. */
export interface GroupWait {
  /** The number of attempts so far. */
  readonly attempts: number;
  /** The error code of the last attempt, or `callUnderWay`. */
  readonly code: string;
  /** True if we haven't tried, because the project's settings don't allow it. */
  readonly blocked: boolean;
  /** The number of unusable responses so far. Only set if the last response was unusable. */
  readonly unusable?: number;
}

/** `finished` is false as long as a group is pending. */
export type BatchFinish =
  | { readonly finished: false }
  | {
      readonly finished: true;
      /** Null if the batch was deleted. Missing in histories of older versions. */
      readonly batch: BatchSummary | null;
      /**
       * True if an operator stopped the batch, so that pending groups count as parked. Missing in histories of older
       * versions.
       */
      readonly stopped?: boolean;
    };

export interface ExecutedBy {
  /**
   * The run that executed the activity. After a reset, the history contains results of an earlier run. Missing in
   * histories of older versions.
   */
  readonly runId: string;
}

export interface BatchSummary {
  readonly groups: number;
  /** The number of groups that we won't attempt again until a replay. */
  readonly parked: number;
  /** The number of unusable responses of the first parked group. `code` is its last error code. */
  readonly unusable: number;
  readonly code: string | null;
  readonly written: number;
  readonly repeated: number;
  readonly dropped: number;
  readonly merged: number;
  readonly facts: number;
}

/** The input of `subjectErasure`. The member name is the same as in the outbox row. */
export interface SubjectErasureInput {
  readonly erasure_id: string;
}

/** How far the gateway's processes have applied an erasure. */
export type ErasureStatus =
  | { readonly kind: 'gone' } // it was deleted
  | { readonly kind: 'done' } // it was already finished
  | { readonly kind: 'clear' } // every live process applies the tombstone and has no older records on disk
  | (Wait & Partial<ProcessCounts>); // some process isn't ready, so check again after this time

/** The members are missing in histories of older versions. */
export interface ProcessCounts {
  /** The number of live processes. `ready` counts those that already apply the tombstone. */
  readonly total: number;
  readonly ready: number;
  /** Ids of processes that aren't ready. The list may be incomplete. */
  readonly missing: readonly string[];
}

/** The input of `dailyCleanup` and its activity: the step to continue with, or null for the first one. */
export interface CleanupInput {
  readonly step: string | null;
}

export interface CleanupProgress {
  /**
   * The step that ran, or null if this version doesn't have the requested one. Missing in histories of older versions.
   */
  readonly step: string | null;
  /** The next step, or null if all of them are done. */
  readonly next: string | null;
  /** The number of rows that the step deleted or changed. Shown to operators. */
  readonly rows: number;
}

/** All activities are idempotent, because Temporal may run them more than once. */
export interface Activities {
  /** Deletes data past its retention period for about a minute. */
  cleanUp(input: CleanupInput): Promise<CleanupProgress>;
  /** Computes missing embeddings of stored texts with the project's model. */
  embedPassages(input: EmbedMemoryInput): Promise<EmbedProgress>;
  /** Starts a batch if one is due. Otherwise returns what to wait for. */
  lookAtLearning(input: ProjectLearningInput): Promise<LearningCheckResult>;
  openBatch(input: LearningBatchInput): Promise<PendingGroups>;
  /**
   * Extracts memories from a group's messages with the memory model and stores them. Skips a group that has already
   * passed this step.
   */
  learnGroup(input: LearningGroupInput): Promise<GroupStepResult>;
  /**
   * Merges a group's memories with existing ones, stores facts and writes the page. Skips a group that has already
   * passed this step.
   */
  consolidateGroup(input: LearningGroupInput): Promise<GroupStepResult>;
  /** Closes the batch and signals its project, unless a group is pending. */
  finishBatch(input: LearningBatchInput): Promise<BatchFinish & ExecutedBy>;
  /**
   * Replays the failed batches of a project, but not the stopped ones, because resetting the project's run delivers old
   * signals again.
   */
  replayBatches(input: ProjectLearningInput): Promise<{ readonly batches: number }>;
  lookAtErasure(input: SubjectErasureInput): Promise<ErasureStatus>;
  /** Deletes Temporal runs that concern the subject. */
  purgeErasedRuns(input: SubjectErasureInput): Promise<Progress>;
  /** Fails if there's any data of the subject left. */
  finishErasure(input: SubjectErasureInput): Promise<void>;
  /** Polls the vendor. Settles the video if it has ended, and otherwise returns how long to wait. */
  pollVideo(input: VideoOperationInput): Promise<VideoPollResult>;
  /** Closes conversations of the project that have been idle long enough, and returns when to check again. */
  readIdleConversations(input: IdleConversationsInput): Promise<CloseIdleResult>;
  /**
   * Closes the conversation if it has been idle long enough, and otherwise returns how long to wait. Only runs of older
   * versions use this.
   */
  readConversation(input: ConversationIdleInput): Promise<IdleCheckResult>;
}

/** The workflows that an outbox row may start. */
export const workflowNames = [
  'conversationIdle',
  'dailyCleanup',
  'embedMemory',
  'idleConversations',
  'learningBatch',
  'projectLearning',
  'subjectErasure',
  'videoOperation',
] as const;

export type WorkflowName = (typeof workflowNames)[number];

/**
 * The header that contains the trace context of what caused a run, as a W3C `traceparent`. It's missing if the cause
 * wasn't sampled.
 */
export const traceHeader = 'traceparent';

/** The end of a traced run. */
export interface RunEnd {
  readonly trace: string;
  readonly outcome: 'completed' | 'continued' | 'failed';
  /** Milliseconds since 1970. */
  readonly endedAt: number;
}

/** The sinks with which workflows report to their worker. The SDK requires a type alias rather than an interface. */
export type TraceSinks = { readonly tracing: { runEnded(end: RunEnd): void } };
