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
  return messages
    .map(({ role, text, toolCalls }) => `${role}: ${[...nonEmptyLines(text), ...toolCalls.map(formatToolCall)].join('\n')}`)
    .join('\n');
}

/** The first user message on one line, at most 200 code points. Null when it has no text. */
export function deriveTitle(messages: readonly NormalMessage[]): string | null {
  const first = messages.find((message) => message.role === 'user');
  return first ? toPostgresText(first.text.trim().replaceAll(/\s+/g, ' '), maxTitleLength).trimEnd() : null;
}

const maxTitleLength = 200;

/** Column `parts.content`, written by `conversations/call-texts.ts`. */
interface PartContent {
  readonly text: string;
  readonly tool_calls: NormalMessage['toolCalls'];
}

function nonEmptyLines(text: string): string[] {
  const trimmed = text.trim();
  return trimmed === '' ? [] : [trimmed];
}

function formatToolCall(call: { readonly name: string; readonly arguments: string }): string {
  return `[calls ${call.name}(${call.arguments.trim()})]`;
}
