/** The activity of the workflow `conversationIdle`. */
import type { Activities, IdleCheckResult } from '../workflows/contract.ts';
import { toPollResult } from './poll-result.ts';

export interface ConversationActivityDeps {
  /** How long a conversation must be without calls to count as finished, by the current configuration. */
  readonly idleMs: () => number;
  /** Reads the conversation if it has been idle for `idleMs`, else returns the remaining time. */
  readonly readConversation: (request: { conversationId: string; opened: number; idleMs: number }) => Promise<IdleCheckResult>;
}

export function createConversationActivities({ idleMs, readConversation }: ConversationActivityDeps): Pick<Activities, 'readConversation'> {
  return {
    readConversation: async ({ conversation_id: conversationId, opened }) =>
      toPollResult(await readConversation({ conversationId, opened, idleMs: idleMs() })),
  };
}
