import type { OutboxEntry } from '../../db/outbox.ts';
import type { Conversation } from './working-set.ts';

/**
 * Outbox row of the workflow that waits for the end of a conversation, one per opening. The workflow id contains the number of openings, so
 * enqueueing it again while the workflow runs has no effect.
 */
export function toIdleTimerEntry({ id, projectId, opened }: Pick<Conversation, 'id' | 'projectId' | 'opened'>): OutboxEntry {
  return { workflow: 'conversationIdle', workflowId: `conversation/${id}/${opened}`, input: { conversation_id: id, opened }, projectId };
}
