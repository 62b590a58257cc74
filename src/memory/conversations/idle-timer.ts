/** Outbox rows of the workflow that waits for the end of a conversation. */
import type { Database } from '../../db/database.ts';
import { enqueueInPages, type OutboxEntry } from '../../db/outbox.ts';
import type { Conversation } from './working-set.ts';

/** One row per opening: the workflow id contains its number, so enqueueing it again while the workflow runs has no effect. */
export function toIdleTimerEntry({
  id,
  projectId,
  opened,
  trace,
}: Pick<Conversation, 'id' | 'projectId' | 'opened' | 'trace'>): OutboxEntry {
  const input = { conversation_id: id, opened };
  return { workflow: 'conversationIdle', workflowId: `conversation/${id}/${opened}`, input, projectId, trace };
}

/** Enqueues the idle timers of all open conversations again, because Temporal may have lost its state. Running timers are not affected. */
export function reenqueueIdleTimers(database: Database): Promise<void> {
  const text = `select id, project_id as "projectId", opened from conversations
                 where state = 'stored' and id > $1::uuid order by id limit $2::integer`;
  return enqueueInPages(database, text, toIdleTimerEntry);
}
