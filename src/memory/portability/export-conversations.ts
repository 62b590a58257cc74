/** Exports conversations, each followed by its messages. */
import { toBatches } from '../../db/row-batches.ts';
import { type ExportedRecord, type ExportScope, firstId, type Page, pageSize, readInPages } from './export-pages.ts';
import { timeSql } from './format.ts';
import { FormattedJson } from './json-lines.ts';

interface ConversationRow extends ExportedRecord {
  readonly id: string;
  /** The number of messages in the conversation. Not part of the export. */
  readonly messages: number;
}

interface MessageRow extends ExportedRecord {
  readonly conversation: string;
  readonly position: number;
  readonly text: FormattedJson | null;
}

export async function* readConversations(scope: ExportScope): AsyncGenerator<Page, void> {
  const read = (after: string) =>
    scope.queries.query<ConversationRow>(
      `select 'conversation' as type, id, source, subject, calls, learnable, batched_messages as learned_messages, messages,
              ${timeSql('started_at')} as started_at, ${timeSql('last_turn_at')} as last_turn_at
         from conversations
        where project_id = $1::uuid and ($2::text is null or subject = $2::text) and id > $3::uuid
        order by id limit $4::integer`,
      [scope.projectId, scope.subject, after, pageSize],
    );
  for await (const conversations of readInPages(firstId, read, ({ id }) => id)) {
    for (const group of toBatches(conversations, ({ messages }) => messages, 2 * pageSize)) {
      const records = group.map(({ messages: _, ...record }) => record);
      yield* interleave(records, readMessagePages(scope, records));
    }
  }
}

async function* interleave(
  conversations: readonly Omit<ConversationRow, 'messages'>[],
  pages: AsyncIterable<readonly MessageRow[]>,
): AsyncGenerator<Page, void> {
  const ends = new Map(conversations.map(({ id }, index) => [id, index + 1]));
  let next = 0;
  for await (const messages of pages) {
    const page: ExportedRecord[] = [];
    for (const message of messages) {
      const end = ends.get(message.conversation) ?? next;
      page.push(...conversations.slice(next, end), message);
      next = end;
    }
    yield page;
  }
  yield conversations.slice(next);
}

/** A page of messages ends once it has about this many bytes. Even a single message can have 4 Mi characters. */
const maxPageBytes = 4 * 1024 * 1024;
/**
 * PostgreSQL compresses messages that are larger than this. Most of them shrink to half of their size, but repetitive
 * ones can become 80 times smaller. We'd have to read them to find out.
 */
const minCompressedBytes = 2_000;
const assumedCompression = 20;

async function* readMessagePages(
  { queries, projectId }: ExportScope,
  conversations: readonly { readonly id: string }[],
): AsyncGenerator<readonly MessageRow[], void> {
  const ids = conversations.map(({ id }) => id);
  for (let [conversation, position] = [firstId, -1]; ; ) {
    const rows = await queries.query<Omit<MessageRow, 'text'> & { readonly text: string | null }>(
      `select 'message' as type, sized.conversation_id as conversation, sized.position, sized.role, nullif(sized.content -> 'text', 'null')::text as text,
              nullif(sized.content -> 'tool_calls', '[]') as tool_calls, sized.starts, sized.call_id as call,
              ${timeSql('sized.created_at')} as created_at
         from (select page.*, sum(page.bytes) over (order by page.conversation_id, page.position) - page.bytes as preceding
                 from (select slot.conversation_id, slot.position, part.role, part.content, slot.call_id, slot.created_at,
                              pg_column_size(part.content) * case when pg_column_size(part.content) < ${minCompressedBytes} then 1
                                                                  else ${assumedCompression} end as bytes,
                              case when part.parent_hash is distinct from previous.part_hash then true end as starts
                         from conversation_parts slot
                         join parts part on part.project_id = $1::uuid and part.hash = slot.part_hash
                         left join conversation_parts previous
                           on previous.conversation_id = slot.conversation_id and previous.position = slot.position - 1
                        where slot.conversation_id = any($2::uuid[]) and (slot.conversation_id, slot.position) > ($3::uuid, $4::integer)
                        order by slot.conversation_id, slot.position limit $5::integer) page) sized
        where sized.preceding <= ${maxPageBytes}
        order by sized.conversation_id, sized.position`,
      [projectId, ids, conversation, position, pageSize],
    );
    const last = rows.at(-1);
    if (!last) return;
    yield rows.map(({ text, ...row }) => ({ ...row, text: text === null ? null : new FormattedJson(text) }));
    [conversation, position] = [last.conversation, last.position];
  }
}
