/** Activities on conversations: what the workflow `conversationIdle` asks of the memory. */
import type { Activities, ConversationLook } from '../workflows/contract.ts';

export interface ConversationRooms {
  /** How long no turn must come until a conversation counts as finished, as configured at the moment. */
  readonly idleMs: () => number;
  /** Memory's own function: reads the conversation if it has been idle for so long, else says how long that is still to come. */
  readonly readConversation: (wish: { conversationId: string; opened: number; idleMs: number }) => Promise<ConversationLook>;
}

export function createConversationActivities({ idleMs, readConversation }: ConversationRooms): Pick<Activities, 'readConversation'> {
  return {
    async readConversation({ conversation_id: conversationId, opened }) {
      const look = await readConversation({ conversationId, opened, idleMs: idleMs() });
      // Member by member: what else the memory may return is none of Temporal's business.
      return look.kind === 'wait' ? { kind: 'wait', waitMs: Math.ceil(look.waitMs) } : { kind: look.kind };
    },
  };
}
