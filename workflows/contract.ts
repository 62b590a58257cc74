/**
 * The contract between the gateway, its workflows and its activities, i.e. names, inputs and results. This file has no
 * imports, so that every module can import it.
 *
 * Temporal stores everything that's defined here in its histories. So there are only ids, counts and hashes, and never
 * text. Names, properties and kinds are persisted, and changing one would break running workflows.
 */

export const memoryQueue = 'memory';

/** An activity returns this if the workflow should call it again later. */
export interface Wait {
  readonly kind: 'wait';
  readonly waitMs: number;
}

/** An activity that works in steps returns this. The workflow calls the activity again until it's done. */
export interface Progress {
  readonly kind: 'done' | 'more';
}

/** Search attributes of type Keyword. Temporal stores them unencrypted. */
export const searchAttributes = {
  project: { name: 'GatewayProject', type: 'KEYWORD' },
  projectSlug: { name: 'GatewayProjectSlug', type: 'KEYWORD' },
  /** The kind of workflow, which is the part of the workflow id before the first slash, e.g. `conversation`. */
  kind: { name: 'GatewayKind', type: 'KEYWORD' },
  state: { name: 'GatewayState', type: 'KEYWORD' },
  batch: { name: 'GatewayBatch', type: 'KEYWORD' },
} as const;

/** The input of `idleConversations` and `embedMemory`. It's stored in the outbox row, so don't rename the fields. */
export interface ProjectRunInput {
  readonly project_id: string;
  /** The sequence number of this run within the project. A run does nothing once there's a newer one. */
  readonly run: number;
}

/** The result of a check for idle conversations. `read` is the number of conversations that it closed. */
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

/** The result of checking whether a conversation is idle. If it is, the check has closed it. */
export type IdleCheckResult =
  | { readonly kind: 'read' } // it was idle long enough and is closed now, or it had already been closed
  | { readonly kind: 'gone' } // deleted or erased
  | { readonly kind: 'superseded' } // it was opened again, and another run has taken over
  | Wait; // it isn't idle yet, so check again after this time

/** The input of `videoOperation`. Don't rename the field, because outbox rows contain it. */
export interface VideoOperationInput {
  readonly call_id: string;
}

export type VideoPollResult =
  | ({ readonly kind: 'settled' } & VideoEnd) // the cost is settled too
  | { readonly kind: 'gone' } // deleted
  | (Wait & {
      readonly unreachable: boolean;
      /** How long until we give up on the video. Older versions didn't return this. */
      readonly giveUpMs?: number;
    }); // poll again after `waitMs`

/** How a video ended. Older versions didn't return any of this. */
export interface VideoEnd {
  /** `unknown` means that the vendor has forgotten the operation, and we never learned how it ended. */
  readonly outcome: 'completed' | 'vendor_failed' | 'unknown';
  /** The vendor's error code. Null if the video didn't fail. */
  readonly code: string | null;
}

export interface EmbedProgress extends Progress {
  /** Older versions didn't return this. */
  readonly passages: number;
  /**
   * Set if the run ended before all passages had a vector. Either there's no embedding model (`no_route`), or a newer
   * run has taken over (`superseded`).
   */
  readonly reason?: 'no_route' | 'superseded';
}

/**
 * The failure type of an attempt that the worker has turned away, because its project already has its share of slots.
 */
export const turnedAway = 'turned_away';
/** If an activity's retry policy lists this type, the workflow retries its failures, and Temporal mustn't. */
export const retriedByWorkflow = 'retried_by_workflow';

/** Tells a learning workflow to check its state again, because something has changed. */
export const wakeSignal = 'look';
/**
 * Sent to a project's run, this signal replays all failed batches. To replay a single batch, we reopen it in the
 * database and send this signal to its run, which is started if necessary.
 */
export const replaySignal = 'replay';

/** The input of `projectLearning`. It's stored in the outbox row, so don't rename the field. */
export interface ProjectLearningInput {
  readonly project_id: string;
}

export type LearningCheckResult =
  | { readonly kind: 'gone' } // the project was deleted
  | ({ readonly kind: 'idle' } & LearningFacts) // no messages are waiting or memory is off
  | ({ readonly kind: 'running' } & LearningFacts) // a normal batch is running
  | (Wait & LearningFacts); // there are too few messages for a batch so far

/** Facts that we only show to operators. Older versions didn't return any of them. */
export interface LearningFacts {
  readonly memoryOff?: boolean;
  /** The number of messages that are waiting for a batch. A batch starts once there are `batchOf` of them. */
  readonly messages?: number;
  readonly batchOf?: number;
  /** The id of the normal batch that's currently running, if there is one. */
  readonly batch?: string | null;
  /**
   * The number of batches in each state. Failed and stopped batches wait until somebody replays them. Failing batches
   * had unusable responses and are being retried. Blocked batches wait until somebody changes a setting.
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

/** Lists the unfinished groups of a batch, and how long each of them has to wait for its next attempt. */
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
   * The next step of the group. If it can't run now, `code` and `blocked` say why. Older versions didn't return any of
   * these.
   */
  readonly step?: 'learnGroup' | 'consolidateGroup';
  readonly code?: string | null;
  readonly blocked?: boolean;
}

export type GroupStepResult =
  | ({ readonly kind: 'settled' } & Partial<GroupOutcome>) // done, failed or erased
  | (Wait & GroupWait); // the step failed or no tier has a chain, so retry after `waitMs` or on a signal

/**
 * Details that are only shown to operators. They are missing if the step had nothing to do, or if an older version
 * returned the result.
 */
export interface GroupOutcome {
  /** `parked` only comes from older versions, which gave up on a group after five unusable responses. */
  readonly outcome: 'learned' | 'done' | 'parked';
  /** The code of the last error if the group is parked, and null otherwise. */
  readonly code: string | null;
  readonly written: number;
}

/**
 * After this many unusable responses in a row, a group is shown as failing, and the delay between its retries gradually
 * grows to a day.
 */
export const maxUnusableResponses = 5;

/**
 * We return this code while a model call of an earlier run of the batch is still in progress. That run was reset,
 * terminated or cancelled.
 */
export const callUnderWay = 'call_under_way';

/** Why a group has to wait for its next attempt. Older versions didn't return any of this. */
export interface GroupWait {
  readonly attempts: number;
  /** The error code of the last attempt, or `callUnderWay` if a model call of an earlier run is still in progress. */
  readonly code: string;
  /** True if no attempt was made because the project's settings don't allow it. */
  readonly blocked: boolean;
  /** The number of unusable responses in a row. Missing if the last response was usable. */
  readonly unusable?: number;
}

/** The result of closing a batch. As long as a group is pending, `finished` is false. */
export type BatchFinish =
  | { readonly finished: false }
  | {
      readonly finished: true;
      /** Null if the batch was deleted. Older versions didn't return this. */
      readonly batch: BatchSummary | null;
      /**
       * True if an operator has stopped the batch. Groups that were pending at that time count as parked. Older
       * versions didn't return this.
       */
      readonly stopped?: boolean;
    };

export interface ExecutedBy {
  /**
   * The id of the run that executed the activity. After a reset, the new run's history still contains results of the
   * old run, which we recognize by this id. Older versions didn't return it.
   */
  readonly runId: string;
}

/**
 * What can happen to the statements and facts that the memory model returns. Batches and groups count each of these,
 * and `memory_batch_groups` has a column with the same name.
 */
export const learnedCounts = ['written', 'repeated', 'dropped', 'merged', 'facts'] as const;
export type LearnedCounts = Readonly<Record<(typeof learnedCounts)[number], number>>;

export interface BatchSummary extends LearnedCounts {
  readonly groups: number;
  /** The number of groups that won't be retried until somebody replays the batch. */
  readonly parked: number;
  /** How many unusable responses the first parked group has received. `code` is the last error code of that group. */
  readonly unusable: number;
  readonly code: string | null;
}

/** The input of `subjectErasure`. It's stored in the outbox row, so don't rename the field. */
export interface SubjectErasureInput {
  readonly erasure_id: string;
}

/** How far the gateway's processes have got with an erasure. */
export type ErasureStatus =
  | { readonly kind: 'gone' } // the erasure was deleted
  | { readonly kind: 'done' } // the erasure had already been finished
  | { readonly kind: 'clear' } // every live process applies the tombstone, and no process has older records on disk
  | (Wait & Partial<ProcessCounts>); // some process isn't ready, so check again after this time

/** The progress of an erasure. Older versions didn't return any of this. */
export interface ProcessCounts {
  /** The number of live processes. `ready` is how many of them already apply the tombstone. */
  readonly total: number;
  readonly ready: number;
  /** The ids of some processes that don't apply the tombstone yet. */
  readonly missing: readonly string[];
}

/**
 * The input of `dailyCleanup` and of its activity. `step` is the step to continue with, or null to start with the first
 * one.
 */
export interface CleanupInput {
  readonly step: string | null;
}

export interface CleanupProgress {
  /** The step that ran. Null if this version doesn't know the requested step. Older versions didn't return this. */
  readonly step: string | null;
  /** The step to continue with, or null if this was the last one. */
  readonly next: string | null;
  readonly rows: number;
}

/** The activities. They're all idempotent, because Temporal can execute an activity more than once. */
export interface Activities {
  /** Deletes data past its retention period. Returns after about a minute. */
  cleanUp(input: CleanupInput): Promise<CleanupProgress>;
  /** Computes the embeddings that stored texts don't have yet, with the project's model. */
  embedPassages(input: ProjectRunInput): Promise<EmbedProgress>;
  /** Starts a batch if one is due. Otherwise the result says what the project is waiting for. */
  lookAtLearning(input: ProjectLearningInput): Promise<LearningCheckResult>;
  openBatch(input: LearningBatchInput): Promise<PendingGroups>;
  /**
   * Extracts memories from a group's messages with the memory model, and stores them. Does nothing if the group has
   * already completed this step.
   */
  learnGroup(input: LearningGroupInput): Promise<GroupStepResult>;
  /**
   * Merges the group's memories into the existing ones, stores facts and writes the page. Does nothing if the group has
   * already completed this step.
   */
  consolidateGroup(input: LearningGroupInput): Promise<GroupStepResult>;
  /** Closes the batch and signals its project, unless a group is still pending. */
  finishBatch(input: LearningBatchInput): Promise<BatchFinish & ExecutedBy>;
  /**
   * Replays the failed batches of a project. Stopped batches aren't replayed, because somebody may just have reset the
   * project's run, and then old signals are delivered again.
   */
  replayBatches(input: ProjectLearningInput): Promise<{ readonly batches: number }>;
  lookAtErasure(input: SubjectErasureInput): Promise<ErasureStatus>;
  purgeErasedRuns(input: SubjectErasureInput): Promise<Progress>;
  /** Checks that there's no data of the subject left. Fails if there is. */
  finishErasure(input: SubjectErasureInput): Promise<void>;
  /**
   * Polls the vendor once. Settles the video if it has finished or failed, otherwise returns how long to wait until the
   * next poll.
   */
  pollVideo(input: VideoOperationInput): Promise<VideoPollResult>;
  /**
   * Closes conversations of the project that have been idle long enough. If any stay open, the result says when to
   * check again.
   */
  readIdleConversations(input: ProjectRunInput): Promise<CloseIdleResult>;
  /**
   * Closes a conversation if it has been idle long enough. Otherwise the result says how long to wait. Only runs from
   * older versions use this.
   */
  readConversation(input: ConversationIdleInput): Promise<IdleCheckResult>;
}

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
 * The workflow header that contains the W3C `traceparent` of whatever started the run. It's missing if that wasn't
 * sampled.
 */
export const traceHeader = 'traceparent';

export interface RunEnd {
  readonly trace: string;
  readonly outcome: 'completed' | 'continued' | 'failed';
  /** Milliseconds since 1970. */
  readonly endedAt: number;
}

/** The sinks that workflows use to report to their worker. The SDK only accepts a type alias here, not an interface. */
export type TraceSinks = { readonly tracing: { runEnded(end: RunEnd): void } };
