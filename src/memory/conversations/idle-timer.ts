/** The wish that somebody waits for the end of an opened conversation and reads it then; made once for each opening. */
import type { OutboxEntry } from '../../db/outbox.ts';
import type { Conversation } from './working-set.ts';

/** Starting it again while its workflow runs is harmless: the workflow id holds the count of openings. */
export function toIdleTimerEntry({ id, projectId, opened }: Pick<Conversation, 'id' | 'projectId' | 'opened'>): OutboxEntry {
  return { workflow: 'conversationIdle', workflowId: `conversation/${id}/${opened}`, input: { conversation_id: id, opened }, projectId };
}
