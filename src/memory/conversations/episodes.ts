/**
 * Reads conversations for the API, which calls them episodes. Also closes idle conversations for workflow runs that
 * were started by older versions.
 */
import type { IdleCheckResult } from '../../../workflows/contract.ts';
import type { Database } from '../../db/database.ts';
import { formatTranscript, readMessages, type StoredMessage } from '../records/conversation-messages.ts';
import { closeConversations } from './close-idle.ts';
import type { ConversationSummary } from './list-conversations.ts';
import type { Conversation } from './working-set.ts';

type EpisodeFields = 'id' | 'title' | 'subject' | 'source' | 'state' | 'startedAt' | 'lastTurnAt' | 'readAt';

export interface Episode extends Pick<ConversationSummary, EpisodeFields> {
  /**
   * The transcript. It was written when the conversation was closed, or is derived from the current messages if it's
   * still open.
   */
  readonly text: string;
  readonly messages: readonly StoredMessage[];
}

export type Episodes = ReturnType<typeof createEpisodes>;

export function createEpisodes({ database }: { readonly database: Database }) {
  return {
    async get(projectId: string, id: string): Promise<Episode | null> {
      const [row] = await database.query<EpisodeRow>(
        `select id, title, subject, source, state, text, messages as count, started_at as "startedAt", last_turn_at as "lastTurnAt",
                read_at as "readAt"
           from conversations
          where id = $1::uuid and project_id = $2::uuid`,
        [id, projectId],
      );
      if (!row) return null;
      const { count, text, ...episode } = row;
      const messages = await readMessages(database, id, count);
      // If we've read fewer messages than the row says, the conversation was deleted between the two queries.
      if (messages.length < count) return null;
      return { ...episode, text: (row.state === 'read' ? text : null) ?? formatTranscript(messages), messages };
    },

    /**
     * Closes the conversation if its last turn was at least `idleMs` ago by the database clock. Idempotent. Only runs
     * of older versions still use this, because they have one run per conversation.
     */
    closeConversation: ({ conversationId, opened, idleMs }: { conversationId: string; opened: number; idleMs: number }) =>
      database.transaction(async (tx): Promise<IdleCheckResult> => {
        const [row] = await tx.query<Pick<Conversation, 'projectId' | 'state' | 'opened' | 'messages' | 'learnable'> & { waitMs: number }>(
          `select project_id as "projectId", state, opened, messages, learnable,
                  greatest(0, extract(epoch from last_turn_at - now()) * 1000 + $2::float8)::float8 as "waitMs"
             from conversations
            where id = $1::uuid
              for update`,
          [conversationId, idleMs],
        );
        if (!row) return { kind: 'gone' };
        if (row.opened !== opened) return { kind: 'superseded' };
        if (row.state === 'read') return { kind: 'read' };
        if (row.waitMs > 0) return { kind: 'wait', waitMs: Math.ceil(row.waitMs) };
        await closeConversations(tx, row.projectId, [{ id: conversationId, messages: row.messages, learnable: row.learnable }]);
        return { kind: 'read' };
      }),
  };
}

interface EpisodeRow extends Omit<Episode, 'text' | 'messages'> {
  readonly text: string | null;
  readonly count: number;
}
