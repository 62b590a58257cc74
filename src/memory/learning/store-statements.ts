/** Stores what was learned: repeats are left out, the rest become items of origin `observed`. */
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { wakeEmbedding } from '../embedding-runs.ts';
import { addItemPassages } from '../passages.ts';
import type { Statement } from './extraction.ts';
import type { Group } from './groups.ts';

/** Who writes what nobody saved by hand. */
const author = 'gateway-memory';

/** The words of a memory, whatever its spaces and its last full stop: the expression of the index `memory_items_by_words`. */
function wordsKey(column: string): string {
  return `md5(lower(regexp_replace(btrim(${column}, E' \\t\\n\\r.'), '\\s+', ' ', 'g')))`;
}

/** Returns how many were new, and how many said word for word what is known of the subject or the whole project. */
export async function storeStatements(
  tx: Queries,
  { group, statements, clock }: { readonly group: Group; readonly statements: readonly Statement[]; readonly clock: Clock },
): Promise<{ written: number; repeated: number }> {
  const fresh = await leaveOutRepeats(tx, group, statements);
  const now = clock.now();
  const rows = fresh.map((statement) => ({ ...statement, id: newId(now), subject: group.subject }));
  if (rows.length === 0) return { written: 0, repeated: statements.length };
  await tx.query(
    `insert into memory_items (id, project_id, subject, text, kind, importance, origin, author, conversation_id, batch_id, evidence,
                               created_at, updated_at)
     select new.id, $1::uuid, $2::text, new.text, new.kind, new.importance, 'observed', $3::text,
            (select conversation.id from conversations conversation where conversation.id = new.conversation_id), $4::uuid, new.evidence,
            $5::timestamptz, $5::timestamptz
       from unnest($6::uuid[], $7::text[], $8::text[], $9::smallint[], $10::uuid[], $11::text[])
         as new (id, text, kind, importance, conversation_id, evidence)`,
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
    ],
  );
  await addItemPassages(tx, group.projectId, rows);
  await wakeEmbedding(tx, group.projectId);
  return { written: rows.length, repeated: statements.length - rows.length };
}

async function leaveOutRepeats(tx: Queries, group: Group, statements: readonly Statement[]): Promise<readonly Statement[]> {
  const fresh = await tx.query<{ place: number }>(
    `select min(new.place)::integer as place
       from (select place, ${wordsKey('text')} as words from unnest($3::text[]) with ordinality as given (text, place)) as new
      where not exists (
        select 1 from memory_items item
         where item.project_id = $1::uuid and item.state = 'live' and ${wordsKey('item.text')} = new.words
           and (item.subject is null or item.subject = $2::text))
      group by new.words`,
    [group.projectId, group.subject, statements.map(({ text }) => text)],
  );
  const places = new Set(fresh.map(({ place }) => place - 1));
  return statements.filter((_, place) => places.has(place));
}
