/**
 * Stores extracted statements as items of origin `observed`. Repeats are left out. A statement is a repeat if there's a
 * memory with the same normalized text that
 *
 * - is live and belongs to the end user or the whole project,
 * - was recalled into the conversation (regardless of its subject), because the response only repeated it, or
 * - was closed after the statement was made. We don't want to learn a removed or corrected memory again from old
 *   messages, but we can learn it again from newer ones.
 */
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { toColumns } from '../../db/row-batches.ts';
import { inheritedWrongSql, learningAuthor } from '../records/item-record.ts';
import { addItemPassages } from '../records/passages.ts';
import { hashNormalizedText, normalizeWords } from '../text/normalized-text.ts';
import { requestEmbedding } from '../triggers/embedding-runs.ts';
import type { Statement } from './extraction.ts';
import type { Group } from './groups.ts';

/** Stores statements that don't repeat a memory. Returns how many were new and how many were repeats. */
export async function storeStatements(
  tx: Queries,
  { group, statements, clock }: { readonly group: Group; readonly statements: readonly Statement[]; readonly clock: Clock },
): Promise<{ written: number; repeated: number }> {
  const newStatements = await filterRepeats(tx, group, statements);
  const rows = newStatements.map((statement) => ({ ...statement, id: newId(clock.now()), subject: group.subject }));
  if (rows.length === 0) return { written: 0, repeated: statements.length };
  await tx.query(
    `insert into memory_items (id, project_id, subject, text, kind, importance, origin, author, conversation_id, batch_id, evidence,
                               words_sha256, ratings_wrong, created_at, updated_at)
     select new.id, $1::uuid, $2::text, new.text, new.kind, new.importance, 'observed', $3::text,
            (select conversation.id from conversations conversation where conversation.id = new.conversation_id), $4::uuid, new.evidence,
            new.text_sha256, ${inheritedWrongSql({ projectId: '$1::uuid', subject: '$2::text', textSha256: 'new.text_sha256' })},
            clock_timestamp(), clock_timestamp()
       from unnest($5::uuid[], $6::text[], $7::text[], $8::smallint[], $9::uuid[], $10::text[], $11::bytea[])
         as new (id, text, kind, importance, conversation_id, evidence, text_sha256)`,
    [
      group.projectId,
      group.subject,
      learningAuthor,
      group.batchId,
      ...toColumns(rows, 'id', 'text', 'kind', 'importance', 'conversationId', 'evidence'),
      rows.map(({ textSha256 }) => textSha256),
    ],
  );
  await addItemPassages(tx, group.projectId, rows);
  await requestEmbedding(tx, group.projectId);
  return { written: rows.length, repeated: statements.length - rows.length };
}

type HashedStatement = Statement & { readonly textSha256: Buffer };

async function filterRepeats(tx: Queries, group: Group, statements: readonly Statement[]): Promise<readonly HashedStatement[]> {
  const byText = new Map(
    statements.map((statement) => [normalizeWords(statement.text), { ...statement, textSha256: hashNormalizedText(statement.text) }]),
  );
  const distinct = [...byText.values()];
  const repeats = await tx.query<{ index: number }>(
    `select (statement.rank - 1)::integer as index
       from unnest($3::bytea[], $4::timestamptz[], $5::uuid[]) with ordinality as statement (text_sha256, said_at, conversation_id, rank)
      where exists (
        select 1 from memory_items item
         where item.project_id = $1::uuid and item.words_sha256 = statement.text_sha256 and (
           ((item.subject is null or item.subject = $2::text) and (item.state = 'live' or item.closed_at >= statement.said_at))
           or exists (select 1 from call_texts text
                       where text.conversation_id = statement.conversation_id and item.id = any(text.recalled_items))))`,
    [
      group.projectId,
      group.subject,
      distinct.map(({ textSha256 }) => textSha256),
      distinct.map(({ saidAt }) => saidAt),
      ...toColumns(distinct, 'conversationId'),
    ],
  );
  const repeated = new Set(repeats.map(({ index }) => index));
  return distinct.filter((_, index) => !repeated.has(index));
}
