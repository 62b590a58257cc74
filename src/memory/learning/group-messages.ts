/** The messages that a group of a batch reads: as the model sees them, and as evidence is looked for in them. */
import type { Queries } from '../../db/database.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';
import type { GroupKey } from './groups.ts';
import { maxMessageLength } from './plan-groups.ts';

export interface GroupMessage {
  readonly conversationId: string;
  readonly role: 'user' | 'assistant';
  /** Credentials are replaced; of a long message the beginning. Tool calls stand below the words (specification 4.8 rule 4). */
  readonly text: string;
  readonly createdAt: Date;
}

interface MessageRow {
  readonly conversationId: string;
  readonly role: 'user' | 'assistant';
  readonly content: { readonly text: string; readonly tool_calls: readonly { readonly name: string; readonly arguments: string }[] };
  readonly createdAt: Date;
}

/** In order. Conversations that were deleted meanwhile are not among them. */
export async function readGroupMessages(queries: Queries, { batchId, position }: GroupKey): Promise<GroupMessage[]> {
  const rows = await queries.query<MessageRow>(
    `select place.conversation_id as "conversationId", part.role, part.content, place.created_at as "createdAt"
       from memory_batch_ranges range
       join conversations conversation on conversation.id = range.conversation_id
       join conversation_parts place on place.conversation_id = range.conversation_id
                                    and place.position >= range.from_position and place.position < range.to_position
       join parts part on part.project_id = conversation.project_id and part.hash = place.part_hash
      where range.batch_id = $1::uuid and range.group_position = $2::integer
      order by conversation.started_at, conversation.id, place.position`,
    [batchId, position],
  );
  return rows.map(({ content, ...row }) => ({
    ...row,
    text: maskCredentials(formatMessage(content).slice(0, maxMessageLength).toWellFormed()),
  }));
}

/** By conversation, the memories that recall has put into its calls. */
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

function formatMessage({ text, tool_calls: calls }: MessageRow['content']): string {
  return [text.trim(), ...calls.map((call) => `[calls ${call.name}(${call.arguments.trim()})]`)].filter((line) => line !== '').join('\n');
}
