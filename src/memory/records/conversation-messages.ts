/** What the memory worker reads of a conversation: its messages, the text made of them, and its title. */

import { toPostgresText } from '../../core/postgres-text.ts';
import type { Queries } from '../../db/database.ts';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';

export interface StoredMessage extends NormalMessage {
  readonly createdAt: Date;
}

/** The first `count` messages of a conversation, in order; messages are only ever added behind them. */
export async function readMessages(queries: Queries, conversationId: string, count: number): Promise<StoredMessage[]> {
  const rows = await queries.query<{ role: 'user' | 'assistant'; content: PartContent; createdAt: Date }>(
    `select part.role, part.content, place.created_at as "createdAt"
       from conversation_parts place
       join conversations conversation on conversation.id = place.conversation_id
       join parts part on part.project_id = conversation.project_id and part.hash = place.part_hash
      where place.conversation_id = $1::uuid and place.position < $2::integer
      order by place.position`,
    [conversationId, count],
  );
  return rows.map(({ role, content, createdAt }) => ({ role, text: content.text, toolCalls: content.tool_calls, createdAt }));
}

/** `user: …` and `assistant: …`, one message after the other; tool calls as `[calls name(arguments)]` below the assistant's words. */
export function formatTranscript(messages: readonly NormalMessage[]): string {
  return messages
    .map(({ role, text, toolCalls }) => `${role}: ${[...nonEmptyLines(text), ...toolCalls.map(formatToolCall)].join('\n')}`)
    .join('\n');
}

/** The first message of the user in one line, at most 200 code points; null when the user said nothing in words. */
export function deriveTitle(messages: readonly NormalMessage[]): string | null {
  const first = messages.find((message) => message.role === 'user');
  return first ? toPostgresText(first.text.trim().replaceAll(/\s+/g, ' '), maxTitleLength).trimEnd() : null;
}

const maxTitleLength = 200;

/** As `call-texts.ts` writes it. */
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
