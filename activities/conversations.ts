/** Activities on conversations: what the workflow `conversationIdle` asks of the memory. */
import type { Activities, IdleCheckResult } from '../workflows/contract.ts';

export interface ConversationActivityDeps {
  /** How long no turn must come until a conversation counts as finished, as configured at the moment. */
  readonly idleMs: () => number;
  /** Memory's own function: reads the conversation if it has been idle for so long, else says how long that is still to come. */
  readonly readConversation: (request: { conversationId: string; opened: number; idleMs: number }) => Promise<IdleCheckResult>;
}

export function createConversationActivities({ idleMs, readConversation }: ConversationActivityDeps): Pick<Activities, 'readConversation'> {
  return {
    async readConversation({ conversation_id: conversationId, opened }) {
      const result = await readConversation({ conversationId, opened, idleMs: idleMs() });
      // Member by member: what else the memory may return is none of Temporal's business.
      return result.kind === 'wait' ? { kind: 'wait', waitMs: Math.ceil(result.waitMs) } : { kind: result.kind };
    },
  };
}
