/** Reads the messages of a conversation, and derives its transcript and title from them. */

import { toPostgresText } from '../../core/postgres-text.ts';
import type { Queries } from '../../db/database.ts';
import { toColumns } from '../../db/row-batches.ts';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';

export interface StoredMessage extends NormalMessage {
  readonly createdAt: Date;
}

/**
 * Reads the first `count` messages of a conversation. Conversations are append-only, so this always returns the same
 * messages.
 */
export async function readMessages(queries: Queries, conversationId: string, count: number): Promise<readonly StoredMessage[]> {
  return (await readMessagesOf(queries, [{ id: conversationId, messages: count }])).get(conversationId) ?? [];
}

/** Like `readMessages`, but for several conversations. A conversation without messages is missing from the result. */
export async function readMessagesOf(
  queries: Queries,
  conversations: readonly { readonly id: string; readonly messages: number }[],
): Promise<ReadonlyMap<string, readonly StoredMessage[]>> {
  const rows = await queries.query<Pick<StoredMessage, 'role' | 'createdAt'> & { id: string; content: PartContent }>(
    `select slot.conversation_id as id, part.role, part.content, slot.created_at as "createdAt"
       from unnest($1::uuid[], $2::integer[]) as requested (id, messages)
       join conversations conversation on conversation.id = requested.id
       join conversation_parts slot on slot.conversation_id = requested.id and slot.position < requested.messages
       join parts part on part.project_id = conversation.project_id and part.hash = slot.part_hash
      order by slot.conversation_id, slot.position`,
    toColumns(conversations, 'id', 'messages'),
  );
  const messages = new Map<string, StoredMessage[]>();
  for (const { id, role, content, createdAt } of rows) {
    const message = { role, text: content.text, toolCalls: content.tool_calls, createdAt };
    const others = messages.get(id);
    if (others) others.push(message);
    else messages.set(id, [message]);
  }
  return messages;
}

/**
 * Formats each message as `user: …` or `assistant: …`, followed by its tool calls as `[calls name(arguments)]` lines.
 */
export function formatTranscript(messages: readonly NormalMessage[]): string {
  return messages.map((message) => `${message.role}: ${formatMessage(message)}`).join('\n');
}

export function formatMessage({ text, toolCalls }: Pick<NormalMessage, 'text' | 'toolCalls'>): string {
  if (toolCalls.length === 0) return text.trim();
  const calls = toolCalls.map((call) => `[calls ${call.name}(${call.arguments.trim()})]`);
  return [text.trim(), ...calls].filter((line) => line !== '').join('\n');
}

/**
 * Makes a title from the first user message by putting it on a single line and truncating it to 200 code points.
 * Returns null if it has no text.
 */
export function deriveTitle(messages: readonly NormalMessage[]): string | null {
  const first = messages.find((message) => message.role === 'user');
  return first ? toPostgresText(first.text.trim().replaceAll(/\s+/g, ' '), maxTitleLength).trimEnd() : null;
}

const maxTitleLength = 200;

/** The JSON in the column `parts.content`, which `conversations/store-parts.ts` writes. */
export interface PartContent {
  readonly text: string;
  readonly tool_calls: NormalMessage['toolCalls'];
}
