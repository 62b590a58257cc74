/**
 * What the gateway, its workflows and its activities agree on: names, inputs, results. Imports nothing, so that everybody may import it.
 *
 * Everything here passes through Temporal and stays in its histories: ids, counts and hashes only, never text (decisions 8).
 */

/** Queue of what every worker runs: short activities on the database, and single requests to vendors (a minute at most). */
export const memoryQueue = 'memory';

/** Input of `conversationIdle`; the member names are those of the outbox row. */
export interface ConversationIdleInput {
  readonly conversation_id: string;
  /** Which opening of the conversation this run is for; a later one has a run of its own. */
  readonly opened: number;
}

/** What became of a conversation that was looked at. */
export type IdleCheckResult =
  | { readonly kind: 'read' } // idle long enough: it is read now, or was already
  | { readonly kind: 'gone' } // deleted or erased
  | { readonly kind: 'superseded' } // opened again since: another run has it
  | { readonly kind: 'wait'; readonly waitMs: number }; // turns still come: look again after this time

/** Input of `videoOperation`; the member name is that of the outbox row. */
export interface VideoOperationInput {
  /** The call that started the video. */
  readonly call_id: string;
}

/** What became of a video that was looked at. */
export type VideoPollResult =
  | { readonly kind: 'settled' } // its end is known, or given up, and its cost is settled
  | { readonly kind: 'gone' } // there is no such video any more
  | { readonly kind: 'wait'; readonly waitMs: number }; // it runs, or the vendor could not be asked: look again after this time

/** Input of `embedMemory`; the member names are those of the outbox row. */
export interface EmbedMemoryInput {
  readonly project_id: string;
  /** Counts the runs of the project; an older one has nothing to do. */
  readonly run: number;
}

export interface EmbedProgress {
  /** `more`: ask again. */
  readonly kind: 'done' | 'more';
}

/** The one signal of the learning workflows: something has changed, look again now. */
export const wakeSignal = 'look';

/** Input of `projectLearning`; the member name is that of the outbox row. */
export interface ProjectLearningInput {
  readonly project_id: string;
}

/** What a project's waiting messages ask for. */
export type LearningCheckResult =
  | { readonly kind: 'gone' } // there is no such project
  | { readonly kind: 'idle' } // nothing waits, or memory is off: a signal tells when that changes
  | { readonly kind: 'running' } // a normal batch runs, just begun or not: it signals its end
  | { readonly kind: 'wait'; readonly waitMs: number }; // too few messages for a batch: look again when the oldest is old enough

/** Input of `learningBatch`; the member name is that of the outbox row. */
export interface LearningBatchInput {
  readonly batch_id: string;
}

/** A group of a batch; its position is its name. */
export interface LearningGroupInput extends LearningBatchInput {
  readonly position: number;
}

/** What is left of a batch: its groups that are neither done nor parked, each with how long it is still to wait for its next try. */
export interface PendingGroups {
  readonly groups: readonly { readonly position: number; readonly waitMs: number }[];
}

/** What became of a step of a group. */
export type GroupStepResult =
  | { readonly kind: 'settled' } // done, now or before; or parked, or erased: nothing is left for this step
  | { readonly kind: 'wait'; readonly waitMs: number }; // it failed, or no tier has a chain: try again after this time, or when told

/** Input of `subjectErasure`; the member name is that of the outbox row. */
export interface SubjectErasureInput {
  readonly erasure_id: string;
}

/** How far the processes are with an erasure. */
export type ErasureStatus =
  | { readonly kind: 'gone' } // there is no such erasure any more
  | { readonly kind: 'done' } // finished before
  | { readonly kind: 'clear' } // every live process keeps to it, and nothing older is on its disk
  | { readonly kind: 'wait'; readonly waitMs: number }; // not all of them are ready: look again after this time

export interface PurgeProgress {
  /** `more`: ask again. */
  readonly kind: 'done' | 'more';
}

/** Input of `dailyCleanup` and of its activity: where to go on; null begins. */
export interface CleanupInput {
  readonly step: string | null;
}

export interface CleanupProgress {
  /** Null: all is done. */
  readonly next: string | null;
  /** How many rows the step came to, for operators. */
  readonly rows: number;
}

export interface Activities {
  /** Deletes, for about a minute, what is no longer to be kept. Harmless when it runs twice. */
  cleanUp(input: CleanupInput): Promise<CleanupProgress>;
  /** Computes vectors of stored text that has none of the project's model. Harmless when it runs twice. */
  embedPassages(input: EmbedMemoryInput): Promise<EmbedProgress>;
  /** Begins a batch when one is due, else says what to wait for. Harmless when it runs twice. */
  lookAtLearning(input: ProjectLearningInput): Promise<LearningCheckResult>;
  openBatch(input: LearningBatchInput): Promise<PendingGroups>;
  /** Asks the memory model what is worth remembering of a group's messages, and stores it. A group that has been through this is not asked again. */
  learnGroup(input: LearningGroupInput): Promise<GroupStepResult>;
  /** Merges what a group has learned with what was known, files facts and writes the page. Likewise. */
  consolidateGroup(input: LearningGroupInput): Promise<GroupStepResult>;
  /** Closes the batch and tells its project, if no group is open. */
  finishBatch(input: LearningBatchInput): Promise<{ readonly finished: boolean }>;
  lookAtErasure(input: SubjectErasureInput): Promise<ErasureStatus>;
  /** Deletes runs that concern the subject. Harmless when it runs twice. */
  purgeErasedRuns(input: SubjectErasureInput): Promise<PurgeProgress>;
  /** Counts what is left of the subject; fails when that is not nothing. */
  finishErasure(input: SubjectErasureInput): Promise<void>;
  /** Asks the vendor and settles what it says, else says how long to wait. Harmless when it runs twice. */
  pollVideo(input: VideoOperationInput): Promise<VideoPollResult>;
  /** Reads the conversation if no turn came for the idle time, else says how long to wait. Harmless when it runs twice. */
  readConversation(input: ConversationIdleInput): Promise<IdleCheckResult>;
}

/** The workflows that workers run, each with its queue: an outbox row may name them. */
export const workflowQueues = {
  conversationIdle: memoryQueue,
  dailyCleanup: memoryQueue,
  embedMemory: memoryQueue,
  learningBatch: memoryQueue,
  projectLearning: memoryQueue,
  subjectErasure: memoryQueue,
  videoOperation: memoryQueue,
} as const satisfies Record<string, string>;

export type WorkflowName = keyof typeof workflowQueues;
