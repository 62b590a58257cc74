/** The messages of a conversation, and the transcript and title derived from them. */

import { toPostgresText } from '../../core/postgres-text.ts';
import type { Queries } from '../../db/database.ts';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';

export interface StoredMessage extends NormalMessage {
  readonly createdAt: Date;
}

/** The first `count` messages in order. Messages are only appended, so this is a stable prefix. */
export async function readMessages(queries: Queries, conversationId: string, count: number): Promise<StoredMessage[]> {
  const rows = await queries.query<{ role: 'user' | 'assistant'; content: PartContent; createdAt: Date }>(
    `select part.role, part.content, slot.created_at as "createdAt"
       from conversation_parts slot
       join conversations conversation on conversation.id = slot.conversation_id
       join parts part on part.project_id = conversation.project_id and part.hash = slot.part_hash
      where slot.conversation_id = $1::uuid and slot.position < $2::integer
      order by slot.position`,
    [conversationId, count],
  );
  return rows.map(({ role, content, createdAt }) => ({ role, text: content.text, toolCalls: content.tool_calls, createdAt }));
}

/** One `user: …` or `assistant: …` block per message; tool calls follow as `[calls name(arguments)]` lines. */
export function formatTranscript(messages: readonly NormalMessage[]): string {
  return messages.map((message) => `${message.role}: ${formatMessage(message)}`).join('\n');
}

/** The text, then a line for each tool call. */
export function formatMessage({ text, toolCalls }: Pick<NormalMessage, 'text' | 'toolCalls'>): string {
  if (toolCalls.length === 0) return text.trim();
  const calls = toolCalls.map((call) => `[calls ${call.name}(${call.arguments.trim()})]`);
  return [text.trim(), ...calls].filter((line) => line !== '').join('\n');
}

/** The first user message on one line, at most 200 code points. Null when it has no text. */
export function deriveTitle(messages: readonly NormalMessage[]): string | null {
  const first = messages.find((message) => message.role === 'user');
  return first ? toPostgresText(first.text.trim().replaceAll(/\s+/g, ' '), maxTitleLength).trimEnd() : null;
}

const maxTitleLength = 200;

/** Column `parts.content`, written by `conversations/call-texts.ts`. */
export interface PartContent {
  readonly text: string;
  readonly tool_calls: NormalMessage['toolCalls'];
}
