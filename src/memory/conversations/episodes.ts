/** Conversations as callers see them (routes call them episodes), and the step from `stored` to `read`. */
import { formatTime } from '../../core/time.ts';
import type { Database } from '../../db/database.ts';
import { deriveTitle, formatTranscript, readMessages, type StoredMessage } from '../records/conversation-messages.ts';
import { requestEmbedding } from '../triggers/embedding-runs.ts';
import { triggerLearning } from '../triggers/learning-triggers.ts';

/** Shapes 14. */
export interface Episode {
  readonly id: string;
  readonly object: 'memory.episode';
  /** Null until read, and when the user said nothing in words. */
  readonly title: string | null;
  readonly subject: string | null;
  readonly source: string;
  readonly state: 'stored' | 'read';
  /** Messages that memory reads. */
  readonly turns: number;
  readonly started_at: string;
  readonly last_turn_at: string;
  readonly read_at: string | null;
  /** What the memory worker read; of a stored conversation what it would read now. */
  readonly text: string;
  readonly messages: readonly EpisodeMessage[];
}

export interface EpisodeMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
  /** Left out when there are none. */
  readonly tool_calls?: StoredMessage['toolCalls'];
  readonly created_at: string;
}

/** What became of a conversation that was looked at. */
export type IdleCheckResult =
  | { readonly kind: 'read' } // idle long enough: it is read now, or was already
  | { readonly kind: 'gone' } // deleted or erased
  | { readonly kind: 'superseded' } // opened again since: another run has it
  | { readonly kind: 'wait'; readonly waitMs: number }; // turns still come: look again after this time

export interface Episodes {
  /** Null for a conversation that does not exist or belongs to another project. */
  get(projectId: string, id: string): Promise<Episode | null>;
  /** Reads the conversation when its last turn is `idleMs` ago by the database's clock. Doing it twice changes nothing. */
  readConversation(request: {
    readonly conversationId: string;
    readonly opened: number;
    readonly idleMs: number;
  }): Promise<IdleCheckResult>;
}

export function createEpisodes({ database }: { readonly database: Database }): Episodes {
  return {
    async get(projectId, id) {
      const [row] = await database.query<EpisodeRow>(
        `select id, title, subject, source, state, text, messages, started_at as "startedAt", last_turn_at as "lastTurnAt",
                read_at as "readAt"
           from conversations
          where id = $1::uuid and project_id = $2::uuid`,
        [id, projectId],
      );
      if (!row) return null;
      const messages = await readMessages(database, id, row.messages);
      // Fewer than the row says: the conversation was deleted between the two reads.
      return messages.length === row.messages ? toEpisode(row, messages) : null;
    },

    readConversation: ({ conversationId, opened, idleMs }) =>
      database.transaction(async (tx): Promise<IdleCheckResult> => {
        const [row] = await tx.query<ReadRow>(
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
        const messages = await readMessages(tx, conversationId, row.messages);
        await tx.query(
          `update conversations
              set state = 'read', read_at = now(), title = $2::text, text = $3::text
            where id = $1::uuid`,
          [conversationId, deriveTitle(messages), formatTranscript(messages)],
        );
        await requestEmbedding(tx, row.projectId);
        if (row.learnable) await triggerLearning(tx, row.projectId);
        return { kind: 'read' };
      }),
  };
}

interface ReadRow {
  readonly projectId: string;
  readonly state: 'stored' | 'read';
  readonly opened: number;
  readonly messages: number;
  readonly learnable: boolean;
  readonly waitMs: number;
}

interface EpisodeRow {
  readonly id: string;
  readonly title: string | null;
  readonly subject: string | null;
  readonly source: string;
  readonly state: 'stored' | 'read';
  readonly text: string | null;
  readonly messages: number;
  readonly startedAt: Date;
  readonly lastTurnAt: Date;
  readonly readAt: Date | null;
}

function toEpisode(row: EpisodeRow, messages: readonly StoredMessage[]): Episode {
  return {
    id: row.id,
    object: 'memory.episode',
    title: row.title,
    subject: row.subject,
    source: row.source,
    state: row.state,
    turns: messages.length,
    started_at: formatTime(row.startedAt.getTime()),
    last_turn_at: formatTime(row.lastTurnAt.getTime()),
    read_at: row.readAt ? formatTime(row.readAt.getTime()) : null,
    text: (row.state === 'read' ? row.text : null) ?? formatTranscript(messages),
    messages: messages.map(toMessage),
  };
}

function toMessage({ role, text, toolCalls, createdAt }: StoredMessage): EpisodeMessage {
  return {
    role,
    content: text,
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
    created_at: formatTime(createdAt.getTime()),
  };
}
