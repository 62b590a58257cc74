/**
 * Stores what was learned: repeats are left out, the rest become items of origin `observed`.
 *
 * A statement is a repeat when a memory says the same word for word: a live one of the end user or of the whole project, one that recall had
 * put into the conversation (whosever it is: the answer has told it again), or one that was closed after the words were said. So what
 * somebody removed or corrected is not learned again from what had been said before, only from what is said anew.
 */
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { addItemPassages } from '../records/passages.ts';
import { hashNormalizedText, normalizeWords } from '../text/normalized-text.ts';
import { requestEmbedding } from '../triggers/embedding-runs.ts';
import type { Statement } from './extraction.ts';
import type { Group } from './groups.ts';

/** Who writes what nobody saved by hand. */
const author = 'gateway-memory';

/** Returns how many were new, and how many were repeats. */
export async function storeStatements(
  tx: Queries,
  { group, statements, clock }: { readonly group: Group; readonly statements: readonly Statement[]; readonly clock: Clock },
): Promise<{ written: number; repeated: number }> {
  const newStatements = await filterRepeats(tx, group, statements);
  const now = clock.now();
  const rows = newStatements.map((statement) => ({ ...statement, id: newId(now), subject: group.subject }));
  if (rows.length === 0) return { written: 0, repeated: statements.length };
  await tx.query(
    `insert into memory_items (id, project_id, subject, text, kind, importance, origin, author, conversation_id, batch_id, evidence,
                               words_sha256, created_at, updated_at)
     select new.id, $1::uuid, $2::text, new.text, new.kind, new.importance, 'observed', $3::text,
            (select conversation.id from conversations conversation where conversation.id = new.conversation_id), $4::uuid, new.evidence,
            new.words, $5::timestamptz, $5::timestamptz
       from unnest($6::uuid[], $7::text[], $8::text[], $9::smallint[], $10::uuid[], $11::text[], $12::bytea[])
         as new (id, text, kind, importance, conversation_id, evidence, words)`,
    [
      group.projectId,
      group.subject,
      author,
      group.batchId,
      new Date(now),
      rows.map(({ id }) => id),
      rows.map(({ text }) => text),
      rows.map(({ kind }) => kind),
      rows.map(({ importance }) => importance),
      rows.map(({ conversationId }) => conversationId),
      rows.map(({ evidence }) => evidence),
      rows.map(({ words }) => words),
    ],
  );
  await addItemPassages(tx, group.projectId, rows);
  await requestEmbedding(tx, group.projectId);
  return { written: rows.length, repeated: statements.length - rows.length };
}

type HashedStatement = Statement & { readonly words: Buffer };

async function filterRepeats(tx: Queries, group: Group, statements: readonly Statement[]): Promise<readonly HashedStatement[]> {
  const byText = new Map(
    statements.map((statement) => [normalizeWords(statement.text), { ...statement, words: hashNormalizedText(statement.text) }]),
  );
  const distinct = [...byText.values()];
  const repeats = await tx.query<{ place: number }>(
    `select (given.place - 1)::integer as place
       from unnest($3::bytea[], $4::timestamptz[], $5::uuid[]) with ordinality as given (words, said_at, conversation_id, place)
      where exists (
        select 1 from memory_items item
         where item.project_id = $1::uuid and item.words_sha256 = given.words and (
           ((item.subject is null or item.subject = $2::text) and (item.state = 'live' or item.closed_at >= given.said_at))
           or exists (select 1 from call_texts text
                       where text.conversation_id = given.conversation_id and item.id = any(text.recalled_items))))`,
    [
      group.projectId,
      group.subject,
      distinct.map(({ words }) => words),
      distinct.map(({ saidAt }) => saidAt),
      distinct.map(({ conversationId }) => conversationId),
    ],
  );
  const places = new Set(repeats.map(({ place }) => place));
  return distinct.filter((_, place) => !places.has(place));
}
