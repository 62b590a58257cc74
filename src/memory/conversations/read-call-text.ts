/**
 * Reads the stored text of a call for the console, i.e. its prompt and response, and what memory did for it. All
 * queries use primary keys.
 */

import { asObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { Queries } from '../../db/database.ts';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';
import type { PartContent } from '../records/conversation-messages.ts';
import type { ItemKind } from '../records/item-record.ts';
import type { Sha256 } from './chain.ts';
import { unpackExtras } from './packed-extras.ts';
import { unpackText } from './packed-text.ts';

export interface CallMemory {
  /** Null if the call isn't part of a conversation, or if its conversation was deleted. */
  readonly conversationId: string | null;
  /** The memories that recall inserted into the prompt, in the order in which they appear there. */
  readonly recalled: readonly RecalledMemory[];
  /** Estimated number of tokens that the memories have added to the prompt. Null if we don't know. */
  readonly recalledTokens: number | null;
}

export interface RecalledMemory {
  readonly id: string;
  /** `kind` and `text` are null if the memory has been deleted. */
  readonly kind: ItemKind | null;
  readonly text: string | null;
}

export async function readCallMemory(queries: Queries, projectId: string, callId: string): Promise<CallMemory | null> {
  const [row] = await queries.query<Omit<CallMemory, 'recalled'> & { recalled: readonly string[] }>(
    `select conversation_id as "conversationId", recalled_items::text[] as recalled, recalled_tokens as "recalledTokens"
       from call_texts where call_id = $1::uuid and project_id = $2::uuid`,
    [callId, projectId],
  );
  if (!row) return null;
  const items = await queries.query<{ id: string; kind: ItemKind; text: string }>(
    'select id, kind, text from memory_items where id = any ($1::uuid[]) and project_id = $2::uuid',
    [row.recalled, projectId],
  );
  const found = new Map(items.map((item) => [item.id, item]));
  return { ...row, recalled: row.recalled.map((id) => found.get(id) ?? { id, kind: null, text: null }) };
}

export interface CallText {
  /** The newest messages of the call, in chronological order. If `answered` is true, the last one is the response. */
  readonly messages: readonly CallMessage[];
  readonly answered: boolean;
  readonly hasOlder: boolean;
  /**
   * Parts of the prompt that aren't messages, e.g. system prompts, tools and tool results. We don't store the bytes of
   * images and other binary content.
   */
  readonly extras: readonly CallExtra[];
  readonly hasMoreExtras: boolean;
  /** The parameters of the request, such as the temperature. Null if we don't know them. */
  readonly parameters: Readonly<Record<string, unknown>> | null;
}

export interface CallMessage extends NormalMessage {
  /** The length of the whole text in characters (code points). */
  readonly textLength: number;
  /** True if the text or the arguments of a tool call were cut off at `maxText`. */
  readonly isCut: boolean;
}

export interface CallExtra {
  readonly kind: string;
  readonly type: string;
  readonly text: string | null;
  readonly isCut: boolean;
  readonly bytes: number | null;
  /** How many messages come before this part in the prompt. Null if unknown. */
  readonly position: number | null;
}

/**
 * Follows the chain backwards from its last part, for at most `maxMessages` parts. Returns null if the text of the call
 * isn't stored.
 */
export async function readCallText(
  queries: Queries,
  projectId: string,
  callId: string,
  { maxMessages, maxText }: { readonly maxMessages: number; readonly maxText: number },
): Promise<CallText | null> {
  const [text] = await queries.query<{
    answered: boolean;
    context: Sha256 | null;
    extras: Sha256 | null;
    last: Sha256 | null;
    embedded: readonly CallExtra[];
    parameters: string | null;
  }>(
    `select answered, encode(context_hash, 'hex') as context, encode(extras_hash, 'hex') as extras, encode(last_hash, 'hex') as last, parameters,
            (select coalesce(jsonb_agg(jsonb_build_object('kind', extra ->> 'kind', 'type', extra ->> 'type',
                                                          'text', left(extra ->> 'text', $3::integer),
                                                          'isCut', coalesce(length(extra ->> 'text') > $3::integer, false),
                                                          'bytes', (extra ->> 'bytes')::bigint,
                                                          'position', (extra ->> 'position')::integer)
                                       order by place), '[]')
               from jsonb_array_elements(extras) with ordinality as listed (extra, place) where place <= $4::integer + 1) as embedded
       from call_texts where call_id = $1::uuid and project_id = $2::uuid`,
    [callId, projectId, maxText, maxMessages],
  );
  if (!text) return null;
  const chains = [text.context, text.extras].filter((end) => end !== null);
  const extras = [...text.embedded.slice(0, maxMessages)];
  let hasMoreExtras = text.embedded.length > maxMessages;
  for (const end of chains) {
    const read = await readExtras(queries, projectId, end, { maxMessages, maxText });
    hasMoreExtras ||= read.length > maxMessages;
    extras.push(...read.slice(-maxMessages));
  }
  const rows = await queries.query<{
    role: NormalMessage['role'];
    text: string;
    textLength: number;
    toolCalls: PartContent['tool_calls'];
    depth: number;
  }>(
    `${chainSql}
     select role, left(content ->> 'text', $4::integer) as text, length(content ->> 'text') as "textLength",
            content -> 'tool_calls' as "toolCalls", depth
       from chain order by depth desc`,
    [projectId, text.last, maxMessages, maxText],
  );
  const hasOlder = rows.length > maxMessages;
  const messages = rows.slice(hasOlder ? 1 : 0).map(({ depth: _, toolCalls, ...message }) => ({
    ...message,
    toolCalls: toolCalls.map((call) => ({ ...call, arguments: cut(call.arguments, maxText) })),
    isCut: message.textLength > maxText || toolCalls.some((call) => call.arguments.length > maxText),
  }));
  const parameters = text.parameters === null ? null : asObject(parseJson(text.parameters));
  return { messages, answered: text.answered, hasOlder, extras, hasMoreExtras, parameters };
}

const countSql = (table: string): string => `case when ${table}.packed is null then 1 else (${table}.content ->> 'count')::integer end`;

/**
 * Selects the last $3 + 1 messages or extras of the chain whose last part has the hash $2. If the oldest of them are
 * packed with others, it also selects those. `depth` counts the messages or extras.
 */
const chainSql = `with recursive chain as (
       select parent_hash, role, content, text_hash, packed, ${countSql('parts')} as depth
         from parts where project_id = $1::uuid and hash = decode($2::text, 'hex')
       union all
       select part.parent_hash, part.role, part.content, part.text_hash, part.packed, chain.depth + ${countSql('part')}
         from chain
         join parts part on part.project_id = $1::uuid and part.hash = chain.parent_hash
        where chain.depth <= $3::integer
     )`;

/**
 * Reads the newest extras of a chain, in the order in which they appear in the prompt. If there are more than
 * `maxMessages`, it returns at least one more than that.
 */
async function readExtras(
  queries: Queries,
  projectId: string,
  end: Sha256,
  { maxMessages, maxText }: { readonly maxMessages: number; readonly maxText: number },
): Promise<CallExtra[]> {
  type Row = Omit<CallExtra, 'text' | 'isCut'> & { content: Buffer | null; isCompressed: boolean; packed: Buffer | null };
  const rows = await queries.query<Row>(
    `${chainSql}
     select role as kind, chain.content ->> 'type' as type, (chain.content ->> 'bytes')::float8 as bytes,
            (chain.content ->> 'position')::integer as position, stored.content,
            stored.is_compressed as "isCompressed", chain.packed
       from chain
       left join prompt_texts stored on stored.project_id = $1::uuid and stored.hash = chain.text_hash
      order by depth desc`,
    [projectId, end, maxMessages],
  );
  const extras = rows.flatMap(({ content, isCompressed, packed, ...extra }) => {
    if (packed) return unpackExtras(packed).map((unpacked) => ({ ...unpacked, bytes: null }));
    return [{ ...extra, text: content === null ? null : unpackText({ content, isCompressed }) }];
  });
  return extras.map(({ text, ...extra }) => ({
    ...extra,
    text: text === null ? null : cut(text, maxText),
    isCut: text !== null && text.length > maxText,
  }));
}

function cut(text: string, maxLength: number): string {
  return text.slice(0, maxLength).toWellFormed();
}
