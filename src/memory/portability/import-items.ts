/**
 * Imports memories and the votes on them. As in `items/items.ts`, we mask credentials in memories, refuse forbidden
 * text, and make live memories available to search immediately.
 */
import { newId } from '../../core/ids.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';
import { addItemPassages } from '../records/passages.ts';
import { hashNormalizedText } from '../text/normalized-text.ts';
import { requestEmbedding } from '../triggers/embedding-runs.ts';
import type { ForeignFormat, ForeignItem } from './foreign-formats.ts';
import { type RecordOf, timesOf } from './format.ts';
import { type ImportBatch, injectionIn, insertNew, mapIds } from './import-batch.ts';

/** A row to insert. Times are in RFC 3339, and null means the current time. */
interface NewRow extends Omit<RecordOf<'item'>, 'type' | 'line' | 'created_at' | 'updated_at'> {
  readonly created_at: string | null;
  readonly updated_at: string | null;
}

export async function importItems(batch: ImportBatch, records: readonly RecordOf<'item'>[]): Promise<void> {
  const { tally } = batch;
  const ids = await mapIds(batch, 'memory_items', records, ({ id }) => id);
  const conversations = await mapIds(batch, 'conversations', records, ({ conversation }) => conversation ?? []);
  const rows = new Map<string, NewRow>();
  for (const { line, ...record } of records) {
    const refusal = batch.refusalOf(record.subject, record.created_at, timesOf(record)) ?? injectionIn(record.text);
    const id = ids.newIdFor(record.id);
    if (refusal !== null) tally.refuse('item', line, refusal);
    else if (ids.find(record.id) !== null || rows.has(id)) tally.count('item', 'present');
    else {
      rows.set(id, {
        ...record,
        id,
        text: maskCredentials(record.text),
        evidence: record.evidence === null ? null : maskCredentials(record.evidence),
        conversation: record.conversation === null ? null : conversations.find(record.conversation),
      });
    }
  }
  await insertRows(batch, [...rows.values()]);
}

export async function importForeignItems(batch: ImportBatch, format: ForeignFormat, items: readonly ForeignItem[]): Promise<void> {
  const { tx, projectId, tally, clock } = batch;
  const masked = items.map((item) => ({ ...item, text: maskCredentials(item.text) }));
  const known = await tx.query<{ position: number }>(
    `select (entry.position - 1)::integer as position
       from unnest($2::bytea[], $3::text[], $4::timestamptz[]) with ordinality as entry (text_sha256, subject, created_at, position)
      where exists (
        select 1 from memory_items item
         where item.project_id = $1::uuid and item.words_sha256 = entry.text_sha256 and item.subject is not distinct from entry.subject
           and (entry.created_at is null or item.created_at = entry.created_at))`,
    [
      projectId,
      masked.map(({ text }) => hashNormalizedText(text)),
      masked.map(({ subject }) => subject),
      masked.map(({ createdAt }) => createdAt),
    ],
  );
  const present = new Set(known.map(({ position }) => position));
  const rows = new Map<string, NewRow>();
  for (const [position, { line, length: _, createdAt, updatedAt, ...item }] of masked.entries()) {
    const refusal = batch.refusalOf(item.subject, createdAt, updatedAt === null ? [] : [updatedAt]) ?? injectionIn(item.text);
    const key = JSON.stringify([
      hashNormalizedText(item.text).toString('hex'),
      item.subject,
      createdAt === null ? null : toMicroseconds(createdAt),
    ]);
    if (refusal !== null) tally.refuse('item', line, refusal);
    else if (present.has(position) || rows.has(key)) tally.count('item', 'present');
    else
      rows.set(key, {
        ...item,
        ...{ id: newId(createdAt === null ? clock.now() : Date.parse(createdAt)), origin: 'agent', author: `import:${format}` },
        ...{ state: 'live', useful: 0, wrong: 0, wrong_overruled: 0, conversation: null, evidence: null },
        ...{ created_at: createdAt, updated_at: updatedAt, closed_at: null },
      });
  }
  await insertRows(batch, [...rows.values()]);
}

/** Two times can be the same although they're written differently. */
function toMicroseconds(time: string): number {
  const fraction = /\.(\d+)/.exec(time)?.[1] ?? '';
  return Date.parse(time) * 1_000 + Number(fraction.padEnd(6, '0').slice(3, 6));
}

async function insertRows({ tx, projectId, tally, writes }: ImportBatch, rows: readonly NewRow[]): Promise<void> {
  tally.count('item', 'added', rows.length);
  if (!writes || rows.length === 0) return;
  await tx.query(
    `insert into memory_items (id, project_id, subject, text, kind, importance, pinned, origin, author, state, ratings_useful, ratings_wrong,
                               wrong_overruled, conversation_id, evidence, words_sha256, created_at, updated_at, closed_at)
     select id, $1::uuid, subject, text, kind, importance, pinned, origin, author, state, useful, wrong, wrong_overruled, conversation, evidence,
            decode(text_sha256, 'hex'), coalesce(created_at, clock_timestamp()), coalesce(updated_at, clock_timestamp()), closed_at
       from jsonb_to_recordset($2::jsonb)
         as new (id uuid, subject text, text text, kind text, importance smallint, pinned boolean, origin text, author text, state text,
                 useful integer, wrong integer, wrong_overruled integer, conversation uuid, evidence text, text_sha256 text, created_at timestamptz,
                 updated_at timestamptz, closed_at timestamptz)`,
    [projectId, JSON.stringify(rows.map((row) => ({ ...row, text_sha256: hashNormalizedText(row.text).toString('hex') })))],
  );
  const live = rows.filter(({ state }) => state === 'live');
  if (live.length === 0) return;
  await addItemPassages(tx, projectId, live);
  await requestEmbedding(tx, projectId);
}

/** Imports votes. A vote that the project already has stays as it is. */
export async function importVotes(batch: ImportBatch, records: readonly RecordOf<'vote'>[]): Promise<void> {
  const { tally, writes } = batch;
  const ids = await mapIds(batch, 'memory_items', records, ({ item }) => item);
  const rows = records.flatMap(({ line, item, voter, subject, rating, voted_at }) => {
    const itemId = ids.find(item);
    // A dry run inserts no memories, so we can't check that a vote's memory exists.
    const refusal =
      batch.refusalOf(subject, voted_at) ?? (itemId === null && writes ? 'its memory is missing, e.g. because it was erased' : null);
    if (refusal !== null) tally.refuse('vote', line, refusal);
    return refusal === null ? [{ item_id: itemId, voter, subject, useful: rating === 'useful', voted_at }] : [];
  });
  await insertNew(batch, 'vote', rows, {
    columns: 'item_id uuid, voter text, subject text, useful boolean, voted_at timestamptz',
    insert: `insert into memory_votes (project_id, item_id, voter, subject, useful, voted_at)
             select $1::uuid, item_id, voter, subject, useful, voted_at from new`,
    known: 'select 1 from memory_votes vote where vote.project_id = $1::uuid and vote.item_id = new.item_id and vote.voter = new.voter',
  });
}
