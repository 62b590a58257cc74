/**
 * Lists conversations for the console, and shows a single conversation in pages of messages. The lists don't load any
 * message text.
 */
import { isUuid } from '../../core/ids.ts';
import type { Queries } from '../../db/database.ts';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';
import type { PartContent } from '../records/conversation-messages.ts';

export interface ConversationSummary {
  readonly id: string;
  /** Null if the conversation hasn't been closed yet, or if no user message has any text. */
  readonly title: string | null;
  readonly source: string;
  readonly subject: string | null;
  readonly state: 'stored' | 'read';
  readonly calls: number;
  readonly messages: number;
  readonly batchedMessages: number;
  readonly learnable: boolean;
  readonly startedAt: Date;
  readonly lastTurnAt: Date;
  readonly readAt: Date | null;
  /** Pass this as `before` to get the next page. */
  readonly cursor: string;
}

export interface ConversationFilter {
  readonly source: string | null;
  readonly subject: string | null;
  readonly state: 'stored' | 'read' | null;
}

const columns = `conversation.id, conversation.title, conversation.source, conversation.subject, conversation.state, conversation.calls,
  conversation.messages, conversation.batched_messages as "batchedMessages", conversation.learnable, conversation.started_at as "startedAt",
  conversation.last_turn_at as "lastTurnAt", conversation.read_at as "readAt",
  (extract(epoch from conversation.last_turn_at) * 1000000)::bigint || '.' || conversation.id as cursor`;

/**
 * Lists the conversations, starting with the one whose last turn is the latest. If the cursor is invalid, returns the
 * first page.
 */
export function listConversations(
  queries: Queries,
  projectId: string,
  { source, subject, state }: ConversationFilter,
  { before, limit }: { readonly before: string | null; readonly limit: number },
): Promise<ConversationSummary[]> {
  const [lastTurnMicros = null, id = null] = isCursor(before) ? before.split('.') : [];
  return queries.query<ConversationSummary>(
    `select ${columns} from conversations conversation
      where conversation.project_id = $1::uuid and ($2::text is null or conversation.source = $2::text)
        and ($3::text is null or conversation.subject = $3::text) and ($4::text is null or conversation.state = $4::text)
        and ($5::bigint is null or (conversation.last_turn_at, conversation.id)
                                   < (timestamptz 'epoch' + $5::bigint * interval '1 microsecond', $6::uuid))
      order by conversation.last_turn_at desc, conversation.id desc
      limit $7::integer`,
    [projectId, source, subject, state, lastTurnMicros, id, limit],
  );
}

function isCursor(text: string | null): text is string {
  const [micros = '', id = ''] = text?.split('.') ?? [];
  return /^\d{1,17}$/.test(micros) && isUuid(id);
}

export interface ConversationView extends ConversationSummary {
  /** The beginning of the transcript that memory learns from. Null while the conversation is open. */
  readonly text: string | null;
  /** The length of the whole transcript in characters. */
  readonly textLength: number;
}

/** Returns null if the project has no conversation with this id. Truncates the text to `maxText` characters. */
export async function readConversation(queries: Queries, projectId: string, id: string, maxText: number): Promise<ConversationView | null> {
  if (!isUuid(id)) return null;
  const [row] = await queries.query<ConversationView>(
    `select ${columns}, left(conversation.text, $3::integer) as text, coalesce(length(conversation.text), 0) as "textLength"
       from conversations conversation where conversation.id = $2::uuid and conversation.project_id = $1::uuid`,
    [projectId, id, maxText],
  );
  return row ?? null;
}

export interface ConversationMessage extends NormalMessage {
  readonly position: number;
  readonly textLength: number;
  /** The call that produced this response. Null for messages that were part of a request. */
  readonly callId: string | null;
  readonly createdAt: Date;
}

/** Lists the messages from position `from` on. The caller has to check that the conversation belongs to its project. */
export async function listMessages(
  queries: Queries,
  conversationId: string,
  { from, limit, maxText }: { readonly from: number; readonly limit: number; readonly maxText: number },
): Promise<ConversationMessage[]> {
  const rows = await queries.query<Omit<ConversationMessage, 'toolCalls'> & { toolCalls: PartContent['tool_calls'] }>(
    `select slot.position, part.role, left(part.content ->> 'text', $4::integer) as text, length(part.content ->> 'text') as "textLength",
            part.content -> 'tool_calls' as "toolCalls", slot.call_id as "callId", slot.created_at as "createdAt"
       from conversation_parts slot
       join conversations conversation on conversation.id = slot.conversation_id
       join parts part on part.project_id = conversation.project_id and part.hash = slot.part_hash
      where slot.conversation_id = $1::uuid and slot.position >= $2::integer and slot.position < $2::integer + $3::integer
      order by slot.position`,
    [conversationId, from, limit, maxText],
  );
  return rows.map((row) => ({
    ...row,
    toolCalls: row.toolCalls.map((call) => ({ ...call, arguments: call.arguments.slice(0, maxText).toWellFormed() })),
  }));
}

export interface ConversationCall {
  readonly id: string;
  readonly startedAt: Date;
  readonly model: string | null;
  readonly status: number;
  readonly costNanos: number | null;
}

/** Lists the latest calls of a conversation, leaving out those without stored text. */
export function listConversationCalls(queries: Queries, conversationId: string, limit: number): Promise<ConversationCall[]> {
  return queries.query<ConversationCall>(
    `select call.id, call.started_at as "startedAt", call.model, call.status, call.cost_nanos as "costNanos"
       from call_texts text join calls call on call.id = text.call_id
      where text.conversation_id = $1::uuid
      order by text.call_id desc
      limit $2::integer`,
    [conversationId, limit],
  );
}
