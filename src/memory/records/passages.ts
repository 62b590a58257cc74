/**
 * Passages are the unit of search. A live memory has one, and a conversation has several. They're written in the same
 * transaction as the memory or the messages, so a text search finds them immediately. Their embeddings are computed
 * later (`indexing/embed-passages.ts`).
 */
import { mapWithYields } from '../../core/map-with-yields.ts';
import type { Queries } from '../../db/database.ts';
import { type Column, querySelected, toColumns } from '../../db/row-batches.ts';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';
import { hasPlainTokens, lexemeSetSql, lexemesSql, tokenizeForIndex, tokenizerVersion } from '../text/lexemes.ts';
import { formatTranscript } from './conversation-messages.ts';
import type { Item } from './item-record.ts';

/**
 * The maximum length of a passage in characters, which is about as long as a memory. If a passage were longer, its
 * vector would be vague and its snippets poor.
 */
const maxPassageLength = 1_200;
/** Only the beginning of a longer message is indexed, because it's usually a file or a log. */
const maxMessageLength = 24_000;
/**
 * The maximum number of passages that a batch stores for a conversation. If there are more, we only keep the newest.
 */
const maxPassages = 400;

type IndexedItem = Pick<Item, 'id' | 'text' | 'kind' | 'subject'>;

export async function addItemPassages(tx: Queries, projectId: string, items: readonly IndexedItem[]): Promise<void> {
  const tokens = await mapWithYields(items, ({ text }) => tokenizeForIndex(text));
  await tx.query(
    `insert into memory_passages (project_id, subject, item_id, kind, text, lexemes, words_version)
     select $1::uuid, new.subject, new.item_id, new.kind, new.text, ${lexemesSql('new.tokens')}, ${tokenizerVersion}
       from unnest($2::text[], $3::uuid[], $4::text[], $5::text[], $6::text[]) as new (subject, item_id, kind, text, tokens)`,
    [projectId, ...toColumns(items, 'subject', 'id', 'kind', 'text'), tokens],
  );
}

export async function deleteItemPassage(tx: Queries, itemId: string): Promise<void> {
  await tx.query(`delete from memory_passages where item_id = $1::uuid`, [itemId]);
}

export interface AddedMessages {
  readonly conversationId: string;
  readonly projectId: string;
  readonly subject: string | null;
  readonly messages: readonly NormalMessage[];
}

/** Indexes messages that were appended to conversations. Passages that already exist don't change. */
export async function addConversationPassages(tx: Queries, added: readonly AddedMessages[]): Promise<void> {
  const passages = added.flatMap(({ conversationId, projectId, subject, messages }) =>
    splitIntoPassages(messages).map((text) => ({ conversationId, projectId, subject, text })),
  );
  // Some characters take far longer to tokenize than others, so this can take seconds.
  const rows = await mapWithYields(passages, (passage): ConversationPassage => {
    const tokens = tokenizeForIndex(passage.text);
    return { ...passage, tokens, isPlain: hasPlainTokens(tokens) };
  });
  await querySelected(tx, rows, passageColumns, insertSql, ({ text }) => text.length);
}

const insertSql = (rows: string): string =>
  `insert into memory_passages (project_id, subject, conversation_id, text, lexemes, words_version)
   select new.project_id, new.subject, new.conversation_id, new.text, ${lexemeSetSql('new.tokens', 'new.is_plain')}, ${tokenizerVersion}
     from (${rows}) as new`;

interface ConversationPassage extends Omit<AddedMessages, 'messages'> {
  readonly text: string;
  readonly tokens: string;
  readonly isPlain: boolean;
}

const passageColumns: readonly Column<ConversationPassage>[] = [
  ['conversation_id', 'uuid', ({ conversationId }) => conversationId],
  ['project_id', 'uuid', ({ projectId }) => projectId],
  ['subject', 'text', ({ subject }) => subject],
  ['text', 'text', ({ text }) => text],
  ['tokens', 'text', ({ tokens }) => tokens],
  ['is_plain', 'boolean', ({ isPlain }) => isPlain],
];

function splitIntoPassages(messages: readonly NormalMessage[]): string[] {
  const passages: string[] = [];
  let passage = '';
  for (const message of messages) {
    for (const chunk of splitMessage(formatTranscript([message]))) {
      if (passage !== '' && passage.length + chunk.length > maxPassageLength) {
        passages.push(passage);
        passage = '';
      }
      passage = passage === '' ? chunk : `${passage}\n${chunk}`;
    }
  }
  if (passage !== '') passages.push(passage);
  return passages.slice(-maxPassages);
}

function splitMessage(text: string): string[] {
  const chunks: string[] = [];
  const end = Math.min(text.length, maxMessageLength);
  for (let start = 0; start < end; ) {
    const next = start + maxPassageLength;
    const space = next < end ? text.lastIndexOf(' ', next) : end;
    const cut = space > start + maxPassageLength / 2 ? space : Math.min(next, end);
    // The cut may have split a surrogate pair, so replace lone surrogates.
    chunks.push(text.slice(start, cut).toWellFormed());
    start = cut;
  }
  return chunks;
}
