/**
 * What the gateway, its workflows and its activities agree on: names, inputs, results. Imports nothing, so that everybody may import it.
 *
 * Everything here passes through Temporal and stays in its histories: ids, counts and hashes only, never text (decisions 8).
 */

/** Queue of all work on memory: short activities on the database. */
export const memoryQueue = 'memory';

/** Input of `conversationIdle`; the member names are those of the outbox row. */
export interface ConversationIdleInput {
  readonly conversation_id: string;
  /** Which opening of the conversation this run is for; a later one has a run of its own. */
  readonly opened: number;
}

/** What became of a conversation that was looked at. */
export type ConversationLook =
  | { readonly kind: 'read' } // idle long enough: it is read now, or was already
  | { readonly kind: 'gone' } // deleted or erased
  | { readonly kind: 'superseded' } // opened again since: another run has it
  | { readonly kind: 'wait'; readonly waitMs: number }; // turns still come: look again after this time

export interface Activities {
  /** Reads the conversation if no turn came for the idle time, else says how long to wait. Harmless when it runs twice. */
  readConversation(input: ConversationIdleInput): Promise<ConversationLook>;
}

/** The workflows an outbox row may name, each with its queue. */
export const workflowQueues = { conversationIdle: memoryQueue } as const satisfies Record<string, string>;

export type WorkflowName = keyof typeof workflowQueues;
