/** Reads the messages of a group, in the form in which we show them to the model and search them for evidence. */
import type { Queries } from '../../db/database.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';
import { formatMessage, type PartContent } from '../records/conversation-messages.ts';
import type { GroupKey } from './groups.ts';
import { maxMessageLength } from './plan-groups.ts';

export interface GroupMessage {
  readonly conversationId: string;
  readonly role: 'user' | 'assistant';
  /** The message and its tool calls, with credentials masked and truncated to `maxMessageLength`. */
  readonly text: string;
  readonly createdAt: Date;
}

/** Returns the messages in order. Conversations that were deleted in the meantime are left out. */
export async function readGroupMessages(queries: Queries, { batchId, position }: GroupKey): Promise<GroupMessage[]> {
  const rows = await queries.query<Omit<GroupMessage, 'text'> & { readonly content: PartContent }>(
    `select slot.conversation_id as "conversationId", part.role, part.content, slot.created_at as "createdAt"
       from memory_batch_ranges range
       join conversations conversation on conversation.id = range.conversation_id
       join conversation_parts slot on slot.conversation_id = range.conversation_id
                                    and slot.position >= range.from_position and slot.position < range.to_position
       join parts part on part.project_id = conversation.project_id and part.hash = slot.part_hash
      where range.batch_id = $1::uuid and range.group_position = $2::integer
      order by conversation.started_at, conversation.id, slot.position`,
    [batchId, position],
  );
  return rows.map(({ content, ...row }) => ({
    ...row,
    text: maskCredentials(formatMessage({ text: content.text, toolCalls: content.tool_calls }).slice(0, maxMessageLength).toWellFormed()),
  }));
}

/** The texts of memories that were recalled, keyed by the id of the conversation. */
export type RecalledTexts = ReadonlyMap<string, readonly string[]>;

export async function readRecalledTexts(queries: Queries, { batchId, position }: GroupKey): Promise<RecalledTexts> {
  const rows = await queries.query<{ conversationId: string; texts: readonly string[] }>(
    `select text.conversation_id as "conversationId", array_agg(distinct item.text) as texts
       from memory_batch_ranges range
       join call_texts text on text.conversation_id = range.conversation_id
      cross join lateral unnest(text.recalled_items) as recalled (id)
       join memory_items item on item.id = recalled.id
      where range.batch_id = $1::uuid and range.group_position = $2::integer
      group by text.conversation_id`,
    [batchId, position],
  );
  return new Map(rows.map(({ conversationId, texts }) => [conversationId, texts]));
}
