/**
 * The contract between the gateway, its workflows and its activities: names, inputs and results. Imports nothing, so that every module may
 * import it.
 *
 * All of it is stored in Temporal's histories: only ids, counts and hashes, never text. Names, members and kinds are persisted; changing one
 * breaks running workflows.
 */

/** The task queue of all workers. */
export const memoryQueue = 'memory';

/** Result of an activity that asks to be called again after a delay. */
export interface Wait {
  readonly kind: 'wait';
  readonly waitMs: number;
}

/** Result of an activity that does a part of its work at a time. */
export interface Progress {
  /** `more`: call the activity again. */
  readonly kind: 'done' | 'more';
}

/** Search attributes, all keywords. Temporal never encrypts them. */
export const searchAttributes = {
  /** Project id. */
  project: { name: 'GatewayProject', type: 'KEYWORD' },
  projectSlug: { name: 'GatewayProjectSlug', type: 'KEYWORD' },
  /** First segment of the workflow id, such as `conversation`. */
  kind: { name: 'GatewayKind', type: 'KEYWORD' },
  /** See `run-status.ts`. */
  state: { name: 'GatewayState', type: 'KEYWORD' },
  /** Id of a learning batch. */
  batch: { name: 'GatewayBatch', type: 'KEYWORD' },
} as const;

/** Input of `idleConversations`; the member names are those of the outbox row. */
export interface IdleConversationsInput {
  readonly project_id: string;
  /** Sequence number of the project's runs; a superseded run does nothing. */
  readonly run: number;
}

/** Result of reading the idle conversations of a project, with how many were read now. */
export type ReadIdleResult = { readonly read: number } & (
  | { readonly kind: 'done' } // no conversation is open
  | { readonly kind: 'superseded' } // a newer run is responsible, or the project was deleted
  | (Wait & { readonly waiting?: number }) // check again after this time; `waiting` conversations are open
);

/** Input of `conversationIdle`, which only older versions start; the member names are those of the outbox row. */
export interface ConversationIdleInput {
  readonly conversation_id: string;
  /** Number of the conversation's opening that this run is for; each opening has a separate run. */
  readonly opened: number;
}

/** Result of checking whether a conversation is idle. */
export type IdleCheckResult =
  | { readonly kind: 'read' } // idle long enough: read now or before
  | { readonly kind: 'gone' } // deleted or erased
  | { readonly kind: 'superseded' } // opened again: another run is responsible
  | Wait; // not idle yet: check again after this time

/** Input of `videoOperation`; the member name is that of the outbox row. */
export interface VideoOperationInput {
  /** The call that started the video. */
  readonly call_id: string;
}

/** Result of polling a video. */
export type VideoPollResult =
  | ({ readonly kind: 'settled' } & VideoEnd) // its cost is settled
  | { readonly kind: 'gone' } // deleted
  | (Wait & {
      readonly unreachable: boolean;
      /** The video is given up after this time. Absent in histories of older versions. */
      readonly giveUpMs?: number;
    }); // poll again after this time

/** Absent in histories of older versions. */
export interface VideoEnd {
  /** `unknown`: the vendor did not say before it forgets its operations. */
  readonly outcome: 'completed' | 'vendor_failed' | 'unknown';
  /** The vendor's class of a failure. */
  readonly code: string | null;
}

/** Input of `embedMemory`; the member names are those of the outbox row. */
export interface EmbedMemoryInput {
  readonly project_id: string;
  /** Sequence number of the project's runs; a superseded run does nothing. */
  readonly run: number;
}

export interface EmbedProgress extends Progress {
  /** Passages that this execution embedded. Absent in histories of older versions. */
  readonly passages: number;
  /** Why nothing is left to do although passages may lack a vector: no model, or a newer run. */
  readonly reason?: 'no_route' | 'superseded';
}

/** Signal of the learning workflows: something has changed, check again now. */
export const wakeSignal = 'look';
/** Signal that replays the failed batches of a project. A replay sends it to the run of a batch, which it starts if none is open. */
export const replaySignal = 'replay';

/** Input of `projectLearning`; the member name is that of the outbox row. */
export interface ProjectLearningInput {
  readonly project_id: string;
}

/** Result of checking a project for messages to learn. */
export type LearningCheckResult =
  | { readonly kind: 'gone' } // the project was deleted
  | ({ readonly kind: 'idle' } & LearningFacts) // no messages, or memory is off: a signal follows when that changes
  | ({ readonly kind: 'running' } & LearningFacts) // a normal batch runs, started now or before: it signals its end
  | (Wait & LearningFacts); // too few messages for a batch: check again when the oldest is old enough

/** For the operator. Absent in histories of older versions. */
export interface LearningFacts {
  readonly memoryOff?: boolean;
  /** Messages that wait for a batch, and how many make one due. */
  readonly messages?: number;
  readonly batchOf?: number;
  /** Id of the normal batch that runs. */
  readonly batch?: string | null;
  /**
   * Numbers of batches. Failed and stopped ones need a replay, failing ones are retried after unusable responses, and
   * blocked ones wait for a change of settings.
   */
  readonly failed?: number;
  readonly failing?: number;
  readonly stopped?: number;
  readonly blocked?: number;
}

/** Input of `learningBatch`; the member name is that of the outbox row. */
export interface LearningBatchInput {
  readonly batch_id: string;
}

/** A group of a batch, identified by its position. */
export interface LearningGroupInput extends LearningBatchInput {
  readonly position: number;
}

/** The groups of a batch that are neither done nor failed, each with the delay until its next attempt. */
export interface PendingGroups {
  readonly groups: readonly PendingGroup[];
  /** All groups of the batch. Absent in histories of older versions. */
  readonly total: number;
}

export interface PendingGroup {
  readonly position: number;
  readonly waitMs: number;
  /** Attempts so far. Absent in histories of older versions. */
  readonly attempts: number;
  /** The step that waits, and why. Absent in histories of older versions. */
  readonly step?: 'learnGroup' | 'consolidateGroup';
  readonly code?: string | null;
  readonly blocked?: boolean;
}

/** Result of a step of a group. */
export type GroupStepResult =
  | ({ readonly kind: 'settled' } & Partial<GroupOutcome>) // done now or before, failed or erased: the step has no work left
  | (Wait & GroupWait); // failed, or no tier has a chain: retry after this time or at a signal

/** For the operator. Absent in histories of older versions, and when the step had nothing to do. */
export interface GroupOutcome {
  /** `parked` only occurs in histories of older versions, which gave up a group after five unusable responses. */
  readonly outcome: 'learned' | 'done' | 'parked';
  /** Error code of a parked group. */
  readonly code: string | null;
  readonly written: number;
}

/**
 * After this many unusable responses in a row, we show a group as failing and retry it less and less often, down to
 * once a day.
 */
export const maxUnusableResponses = 5;

/** Code of a wait for the model call of an earlier run of the batch, which was reset, terminated or cancelled. */
export const callUnderWay = 'call_under_way';

/** Absent in histories of older versions. */
export interface GroupWait {
  /** Attempts so far. */
  readonly attempts: number;
  /** Error code of the last attempt, or `callUnderWay`. */
  readonly code: string;
  /** Not attempted: the project's settings do not allow it. */
  readonly blocked: boolean;
  /** Unusable responses so far, when the last one was. */
  readonly unusable?: number;
}

/** `finished: false` while a group is pending. */
export type BatchFinish =
  | { readonly finished: false }
  | {
      readonly finished: true;
      /** Null when the batch was deleted. Absent in histories of older versions. */
      readonly batch: BatchSummary | null;
      /** An operator stopped the batch, so pending groups count as parked. Absent in histories of older versions. */
      readonly stopped?: boolean;
    };

export interface ExecutedBy {
  /** The run that executed the activity: in the history of a run that was reset, an earlier one. Absent in histories of older versions. */
  readonly runId: string;
}

export interface BatchSummary {
  readonly groups: number;
  /** Number of groups that we won't attempt again until a replay. */
  readonly parked: number;
  /** Of the first parked group: unusable responses and the last error code. */
  readonly unusable: number;
  readonly code: string | null;
  readonly written: number;
  readonly repeated: number;
  readonly dropped: number;
  readonly merged: number;
  readonly facts: number;
}

/** Input of `subjectErasure`; the member name is that of the outbox row. */
export interface SubjectErasureInput {
  readonly erasure_id: string;
}

/** Status of an erasure in the processes. */
export type ErasureStatus =
  | { readonly kind: 'gone' } // deleted
  | { readonly kind: 'done' } // finished before
  | { readonly kind: 'clear' } // every live process applies the tombstone and has no older records on disk
  | (Wait & Partial<ProcessCounts>); // some process is not ready: check again after this time

/** Absent in histories of older versions. */
export interface ProcessCounts {
  /** Live processes, and those that apply the tombstone. */
  readonly total: number;
  readonly ready: number;
  /** Ids of the first of the others. */
  readonly missing: readonly string[];
}

/** Input of `dailyCleanup` and its activity: the step to continue with; null for the first one. */
export interface CleanupInput {
  readonly step: string | null;
}

export interface CleanupProgress {
  /** The step that ran; null when this version does not have the requested one. Absent in histories of older versions. */
  readonly step: string | null;
  /** Null: all steps are done. */
  readonly next: string | null;
  /** Number of rows that the step deleted or changed, for operators. */
  readonly rows: number;
}

/** The activities. All are idempotent, since Temporal may run them more than once. */
export interface Activities {
  /** Deletes data past its retention for about a minute. */
  cleanUp(input: CleanupInput): Promise<CleanupProgress>;
  /** Computes missing embeddings of stored text for the project's model. */
  embedPassages(input: EmbedMemoryInput): Promise<EmbedProgress>;
  /** Starts a batch when one is due, else returns what to wait for. */
  lookAtLearning(input: ProjectLearningInput): Promise<LearningCheckResult>;
  openBatch(input: LearningBatchInput): Promise<PendingGroups>;
  /** Extracts memories from a group's messages with the memory model and stores them. Skips a group that has passed this step. */
  learnGroup(input: LearningGroupInput): Promise<GroupStepResult>;
  /** Merges a group's memories with existing ones, stores facts and writes the page. Skips a group that has passed this step. */
  consolidateGroup(input: LearningGroupInput): Promise<GroupStepResult>;
  /** Closes the batch and signals its project, unless a group is pending. */
  finishBatch(input: LearningBatchInput): Promise<BatchFinish & ExecutedBy>;
  /** Replays the failed batches of a project. Not the stopped ones: a reset of the project's run delivers old signals again. */
  replayBatches(input: ProjectLearningInput): Promise<{ readonly batches: number }>;
  lookAtErasure(input: SubjectErasureInput): Promise<ErasureStatus>;
  /** Deletes Temporal runs that concern the subject. */
  purgeErasedRuns(input: SubjectErasureInput): Promise<Progress>;
  /** Verifies that no data of the subject remains; fails otherwise. */
  finishErasure(input: SubjectErasureInput): Promise<void>;
  /** Polls the vendor; settles a finished video, else returns how long to wait. */
  pollVideo(input: VideoOperationInput): Promise<VideoPollResult>;
  /** Reads the conversations of the project that were idle for the idle time, and returns when to check again. */
  readIdleConversations(input: IdleConversationsInput): Promise<ReadIdleResult>;
  /** Reads the conversation if it was idle for the idle time, else returns how long to wait. For runs of older versions. */
  readConversation(input: ConversationIdleInput): Promise<IdleCheckResult>;
}

/** The workflows that an outbox row may name. */
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

/** Header of a run with the trace context of its cause, a W3C `traceparent`; absent unless that was sampled. */
export const traceHeader = 'traceparent';

/** The end of a traced run. */
export interface RunEnd {
  readonly trace: string;
  readonly outcome: 'completed' | 'continued' | 'failed';
  /** Milliseconds since 1970. */
  readonly endedAt: number;
}

/** What workflows tell their worker; a type alias, as the SDK requires. */
export type TraceSinks = { readonly tracing: { runEnded(end: RunEnd): void } };
