/**
 * What search looks through: a live item is one passage, a conversation has several. They are written in the transaction that stores what
 * they are made of, so both can be found at once, by their words; vectors come later (`embed-passages.ts`).
 */
import type { Queries } from '../../db/database.ts';
import { toBatches } from '../../db/row-batches.ts';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';
import { lexemesSql, tokenizeForIndex, tokenizerVersion } from '../text/lexemes.ts';
import { formatTranscript } from './conversation-messages.ts';
import type { Item } from './item-record.ts';

/** About as long as a memory: of a longer text a vector says little, and a snippet less. */
const maxPassageLength = 1_200;
/** What is longer is a file or a log in a prompt: it is stored, and search knows its beginning. */
const maxMessageLength = 24_000;
/** Of what one batch adds to a conversation; the newest count. */
const maxPassages = 400;

type IndexedItem = Pick<Item, 'id' | 'text' | 'kind' | 'subject'>;

export async function addItemPassages(tx: Queries, projectId: string, items: readonly IndexedItem[]): Promise<void> {
  await tx.query(
    `insert into memory_passages (project_id, subject, item_id, kind, text, lexemes, words_version)
     select $1::uuid, new.subject, new.item_id, new.kind, new.text, ${lexemesSql('new.words')}, ${tokenizerVersion}
       from unnest($2::text[], $3::uuid[], $4::text[], $5::text[], $6::text[]) as new (subject, item_id, kind, text, words)`,
    [
      projectId,
      items.map((item) => item.subject),
      items.map((item) => item.id),
      items.map((item) => item.kind),
      items.map((item) => item.text),
      items.map((item) => tokenizeForIndex(item.text)),
    ],
  );
}

/** A closed item is no longer found. */
export async function deleteItemPassage(tx: Queries, itemId: string): Promise<void> {
  await tx.query(`delete from memory_passages where item_id = $1::uuid`, [itemId]);
}

export interface AddedMessages {
  readonly conversationId: string;
  readonly projectId: string;
  readonly subject: string | null;
  readonly messages: readonly NormalMessage[];
}

/** Messages are only ever added to a conversation, so passages are too. */
export async function addConversationPassages(tx: Queries, added: readonly AddedMessages[]): Promise<void> {
  const rows = added.flatMap(({ messages, ...owner }) => splitIntoPassages(messages).map((text) => ({ ...owner, text })));
  for (const slice of toBatches(rows, ({ text }) => text.length)) {
    await tx.query(
      `insert into memory_passages (project_id, subject, conversation_id, text, lexemes, words_version)
       select new.project_id, new.subject, new.conversation_id, new.text, ${lexemesSql('new.words')}, ${tokenizerVersion}
         from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[]) as new (project_id, subject, conversation_id, text, words)`,
      [
        slice.map((row) => row.projectId),
        slice.map((row) => row.subject),
        slice.map((row) => row.conversationId),
        slice.map((row) => row.text),
        slice.map((row) => tokenizeForIndex(row.text)),
      ],
    );
  }
}

/** Messages that follow each other share a passage as long as they fit; a long one is cut between words. */
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
    // A cut may part a surrogate pair.
    chunks.push(text.slice(start, cut).toWellFormed());
    start = cut;
  }
  return chunks;
}
