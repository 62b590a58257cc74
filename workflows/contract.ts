/**
 * The contract between the gateway, its workflows and its activities: names, inputs and results. This file has no
 * imports, so every module can import it.
 *
 * Temporal stores everything defined here in its histories, so there are only ids, counts and hashes, and never text.
 * Names, properties and kinds are persisted, so changing one breaks running workflows.
 */

/** All workers poll this one queue. */
export const memoryQueue = 'memory';

/** The result of an activity that wants to be called again later. */
export interface Wait {
  readonly kind: 'wait';
  readonly waitMs: number;
}

/** The result of an activity that the workflow calls repeatedly until all of its work is done. */
export interface Progress {
  /** `more` means that there's more work, so the workflow should call the activity again. */
  readonly kind: 'done' | 'more';
}

/** Search attributes of type Keyword. Temporal doesn't encrypt these. */
export const searchAttributes = {
  /** The project id. */
  project: { name: 'GatewayProject', type: 'KEYWORD' },
  projectSlug: { name: 'GatewayProjectSlug', type: 'KEYWORD' },
  /** The part of the workflow id before the first slash, e.g. `conversation`. */
  kind: { name: 'GatewayKind', type: 'KEYWORD' },
  /** The state of the run (see `run-status.ts`). */
  state: { name: 'GatewayState', type: 'KEYWORD' },
  /** The id of a learning batch. */
  batch: { name: 'GatewayBatch', type: 'KEYWORD' },
} as const;

/** The input of `idleConversations`. It's stored in the outbox row, so don't rename the fields. */
export interface IdleConversationsInput {
  readonly project_id: string;
  /** The sequence number of this run within the project. Once there's a newer run, this one does nothing. */
  readonly run: number;
}

/**
 * The result of looking for idle conversations and closing them. `read` is the number of conversations that were
 * closed.
 */
export type CloseIdleResult = { readonly read: number } & (
  | { readonly kind: 'done' } // no conversation is open
  | { readonly kind: 'superseded' } // a newer run has taken over, or the project was deleted
  | (Wait & { readonly waiting?: number }) // `waiting` conversations are still open, so check again after this time
);

/**
 * The input of `conversationIdle`. Only older versions start this workflow. Don't rename the fields, because outbox
 * rows contain them.
 */
export interface ConversationIdleInput {
  readonly conversation_id: string;
  /** Increases each time the conversation is opened. Every opening has its own run, so this identifies the run. */
  readonly opened: number;
}

/** The result of checking whether a conversation is idle, which closes it if it is. */
export type IdleCheckResult =
  | { readonly kind: 'read' } // it was idle long enough and is closed now, or it had already been closed
  | { readonly kind: 'gone' } // deleted or erased
  | { readonly kind: 'superseded' } // it was opened again, and another run has taken over
  | Wait; // it isn't idle yet, so check again after this time

/** The input of `videoOperation`. Don't rename the field, because outbox rows contain it. */
export interface VideoOperationInput {
  /** The id of the call that started the video. */
  readonly call_id: string;
}

export type VideoPollResult =
  | ({ readonly kind: 'settled' } & VideoEnd) // the cost is settled too
  | { readonly kind: 'gone' } // deleted
  | (Wait & {
      readonly unreachable: boolean;
      /** How much time is left until we give up on the video. Older versions didn't return this. */
      readonly giveUpMs?: number;
    }); // poll again after `waitMs`

/** The end of a video. Older versions returned nothing here. */
export interface VideoEnd {
  /** `unknown` means that the vendor no longer knows the operation and never told us its outcome. */
  readonly outcome: 'completed' | 'vendor_failed' | 'unknown';
  /** The vendor's error code. Null if the video didn't fail. */
  readonly code: string | null;
}

/** The input of `embedMemory`. It's stored in the outbox row, so don't rename the fields. */
export interface EmbedMemoryInput {
  readonly project_id: string;
  /** The sequence number of this run within the project. Once there's a newer run, this one does nothing. */
  readonly run: number;
}

export interface EmbedProgress extends Progress {
  /** How many passages this activity has embedded. Older versions didn't return this. */
  readonly passages: number;
  /**
   * Why the work ended although some passages may still lack a vector: there's no embedding model, or a newer run has
   * taken over.
   */
  readonly reason?: 'no_route' | 'superseded';
}

/** Tells a learning workflow that something has changed, so that it checks again now. */
export const wakeSignal = 'look';
/**
 * Makes a project's run replay its failed batches. To replay a single batch, we send this signal to the run of that
 * batch, and start the run if necessary.
 */
export const replaySignal = 'replay';

/** The input of `projectLearning`. It's stored in the outbox row, so don't rename the field. */
export interface ProjectLearningInput {
  readonly project_id: string;
}

/** The result of checking whether there are enough messages in a project to learn from. */
export type LearningCheckResult =
  | { readonly kind: 'gone' } // the project was deleted
  | ({ readonly kind: 'idle' } & LearningFacts) // no messages are waiting or memory is off
  | ({ readonly kind: 'running' } & LearningFacts) // a normal batch is running
  | (Wait & LearningFacts); // there are too few messages for a batch so far

/** Figures for operators. Older versions returned none of them. */
export interface LearningFacts {
  readonly memoryOff?: boolean;
  /** How many messages are waiting for a batch. A batch starts once there are `batchOf` messages. */
  readonly messages?: number;
  readonly batchOf?: number;
  /** Id of the normal batch that's running, if there is one. */
  readonly batch?: string | null;
  /**
   * How many batches are in each state. Failed and stopped batches need a replay. Failing batches are retried after
   * unusable responses. Blocked batches wait until somebody changes a setting.
   */
  readonly failed?: number;
  readonly failing?: number;
  readonly stopped?: number;
  readonly blocked?: number;
}

/** The input of `learningBatch`. It's stored in the outbox row, so don't rename the field. */
export interface LearningBatchInput {
  readonly batch_id: string;
}

export interface LearningGroupInput extends LearningBatchInput {
  readonly position: number;
}

/** The groups of a batch that still have work left, and how long to wait before the next attempt of each. */
export interface PendingGroups {
  readonly groups: readonly PendingGroup[];
  /** The total number of groups in the batch. Older versions didn't return this. */
  readonly total: number;
}

export interface PendingGroup {
  readonly position: number;
  readonly waitMs: number;
  /** The number of attempts so far. Older versions didn't return this. */
  readonly attempts: number;
  /**
   * What the batch is waiting to do. `code` and `blocked` say why it can't. All three are missing in results of older
   * versions.
   */
  readonly step?: 'learnGroup' | 'consolidateGroup';
  readonly code?: string | null;
  readonly blocked?: boolean;
}

export type GroupStepResult =
  | ({ readonly kind: 'settled' } & Partial<GroupOutcome>) // done, failed or erased
  | (Wait & GroupWait); // the step failed or no tier has a chain, so retry after `waitMs` or on a signal

/**
 * Details that we show to operators. They're missing if the step had nothing to do, and older versions didn't return
 * them.
 */
export interface GroupOutcome {
  /** Only older versions returned `parked`. They gave up on a group after five unusable responses. */
  readonly outcome: 'learned' | 'done' | 'parked';
  /** Why the group is parked, as the code of its last error. Null if it isn't. */
  readonly code: string | null;
  readonly written: number;
}

/**
 * After this many unusable responses in a row, we show the group as failing and increase the delay between its retries
 * to up to a day.
 */
export const maxUnusableResponses = 5;

/**
 * We report this code while we're waiting for a model call that an earlier run of the batch started. The earlier run
 * was reset, terminated or cancelled.
 */
export const callUnderWay = 'call_under_way';

/** What a waiting group is waiting for. Older versions return none of these fields. */
export interface GroupWait {
  readonly attempts: number;
  /** The error code of the last attempt. It's `callUnderWay` if an earlier run's model call is still in progress. */
  readonly code: string;
  /** True if no attempt was made because the project's settings don't allow one. */
  readonly blocked: boolean;
  /** Unusable responses in a row. Absent if the last one was usable. */
  readonly unusable?: number;
}

/** The result of closing a batch. `finished` is false while a group is still pending. */
export type BatchFinish =
  | { readonly finished: false }
  | {
      readonly finished: true;
      /** A summary of the batch. It's null if the batch was deleted, and older versions didn't return it. */
      readonly batch: BatchSummary | null;
      /**
       * True if an operator has stopped the batch. Groups that were still pending then count as parked. Older versions
       * didn't return this.
       */
      readonly stopped?: boolean;
    };

export interface ExecutedBy {
  /**
   * The run that executed the activity. If a run is reset, the history of the new run contains results from the earlier
   * one, and this lets us detect them. Older versions didn't return this.
   */
  readonly runId: string;
}

export interface BatchSummary {
  readonly groups: number;
  /** Groups that won't be retried until somebody replays the batch. */
  readonly parked: number;
  /** How many unusable responses the first parked group has received. `code` is the last error code of that group. */
  readonly unusable: number;
  readonly code: string | null;
  readonly written: number;
  readonly repeated: number;
  readonly dropped: number;
  readonly merged: number;
  readonly facts: number;
}

/** The input of `subjectErasure`. It's stored in the outbox row, so don't rename the field. */
export interface SubjectErasureInput {
  readonly erasure_id: string;
}

/** How many of the gateway's processes have applied an erasure. */
export type ErasureStatus =
  | { readonly kind: 'gone' } // the erasure was deleted
  | { readonly kind: 'done' } // the erasure had already been finished
  | { readonly kind: 'clear' } // every live process applies the tombstone, and no process has older records on disk
  | (Wait & Partial<ProcessCounts>); // some process isn't ready, so check again after this time

/** How many processes apply the tombstone. Older versions didn't return any of these fields. */
export interface ProcessCounts {
  /** How many of the live processes (`total`) apply the tombstone by now (`ready`). */
  readonly total: number;
  readonly ready: number;
  /** Some of the processes that aren't ready, by id. */
  readonly missing: readonly string[];
}

/**
 * The input of `dailyCleanup` and its activity. `step` is the step to continue with, or null to begin with the first
 * one.
 */
export interface CleanupInput {
  readonly step: string | null;
}

export interface CleanupProgress {
  /**
   * The step that ran. It's null if this version doesn't have the requested step. Older versions didn't return this.
   */
  readonly step: string | null;
  /** Where to go on. Null after the last step. */
  readonly next: string | null;
  /** How many rows the step deleted or changed. We show this to operators. */
  readonly rows: number;
}

/** The activities. They're all idempotent, because Temporal can execute an activity more than once. */
export interface Activities {
  /** Deletes data past its retention period. Returns after about a minute. */
  cleanUp(input: CleanupInput): Promise<CleanupProgress>;
  /** Computes the embeddings that stored texts don't have yet, with the project's model. */
  embedPassages(input: EmbedMemoryInput): Promise<EmbedProgress>;
  /** Starts a batch if one is due. If not, the result says what to wait for. */
  lookAtLearning(input: ProjectLearningInput): Promise<LearningCheckResult>;
  openBatch(input: LearningBatchInput): Promise<PendingGroups>;
  /**
   * Extracts memories from a group's messages with the memory model, and stores them. Does nothing if the group has
   * already completed this step.
   */
  learnGroup(input: LearningGroupInput): Promise<GroupStepResult>;
  /**
   * Merges the group's memories into the existing ones, stores facts and writes the page. A no-op if this step is
   * already done for the group.
   */
  consolidateGroup(input: LearningGroupInput): Promise<GroupStepResult>;
  /** Closes the batch and signals its project, unless a group is still pending. */
  finishBatch(input: LearningBatchInput): Promise<BatchFinish & ExecutedBy>;
  /**
   * Replays the failed batches of a project. Stopped batches aren't replayed, because resetting the project's run
   * delivers old signals again.
   */
  replayBatches(input: ProjectLearningInput): Promise<{ readonly batches: number }>;
  lookAtErasure(input: SubjectErasureInput): Promise<ErasureStatus>;
  /** Deletes Temporal runs that contain data about the subject. */
  purgeErasedRuns(input: SubjectErasureInput): Promise<Progress>;
  /** Checks that there's no data of the subject left. Fails if there is. */
  finishErasure(input: SubjectErasureInput): Promise<void>;
  /**
   * Polls the vendor once. Settles the video if it has finished or failed, otherwise returns how long to wait until the
   * next poll.
   */
  pollVideo(input: VideoOperationInput): Promise<VideoPollResult>;
  /**
   * Closes those of the project's conversations that have been idle long enough. If conversations are still open, the
   * result says when to check again.
   */
  readIdleConversations(input: IdleConversationsInput): Promise<CloseIdleResult>;
  /**
   * Closes a conversation if it has been idle long enough. If not, the result says how long to wait. Only runs from
   * older versions use this.
   */
  readConversation(input: ConversationIdleInput): Promise<IdleCheckResult>;
}

/** The workflows that can be started by an outbox row. */
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

/** The workflow header for the W3C `traceparent` of whatever started the run. Absent if that wasn't sampled. */
export const traceHeader = 'traceparent';

/** The report that a workflow sends to its worker when a traced run ends. */
export interface RunEnd {
  readonly trace: string;
  readonly outcome: 'completed' | 'continued' | 'failed';
  /** Milliseconds since 1970. */
  readonly endedAt: number;
}

/**
 * The sinks through which workflows report to their worker. This has to be a type alias, because the SDK doesn't accept
 * an interface here.
 */
export type TraceSinks = { readonly tracing: { runEnded(end: RunEnd): void } };
