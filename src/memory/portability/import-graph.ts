/**
 * Imports everything that refers to memories: successors, entities, facts and pages. We check their text in the same
 * way as the text of memories.
 */
import { maskCredentials } from '../../guardrails/credentials.ts';
import { schedulePageRebuild } from '../items/invalidate-page.ts';
import { inRecallSql } from '../records/item-record.ts';
import { foldName, foldRelation, lexemesSql, tokenizeForIndex, tokenizerVersion } from '../text/lexemes.ts';
import { hasSameScope } from '../text/subject-scope.ts';
import { type RecordOf, timesOf } from './format.ts';
import { type ImportBatch, injectionIn, insertNew, mapIds } from './import-batch.ts';

/**
 * Links closed memories and facts to their successors. Skips rows that already have a successor, or whose successor
 * wasn't imported.
 */
export async function importSuccessions(batch: ImportBatch, records: readonly RecordOf<'succession'>[]): Promise<void> {
  const { tx, tally, writes } = batch;
  const ofFacts = `set superseded_by = new.superseded_by from new
                    where old.id = new.id and old.superseded_by is null and new.superseded_by is not null and old.valid_to is not null`;
  const ofItems = `set supersedes = coalesce(old.supersedes, new.supersedes),
                       superseded_by = case when old.state = 'closed' then coalesce(old.superseded_by, new.superseded_by) end
                  from new
                 where old.id = new.id and ((old.supersedes is null and new.supersedes is not null)
                       or (old.superseded_by is null and new.superseded_by is not null and old.state = 'closed'))`;
  for (const { table, update, rows } of [
    { table: 'memory_items', update: ofItems, rows: records.filter(({ item }) => item !== null) },
    { table: 'memory_facts', update: ofFacts, rows: records.filter(({ fact }) => fact !== null) },
  ] as const) {
    if (rows.length === 0) continue;
    const ids = await mapIds(batch, table, rows, ({ item, fact, supersedes, superseded_by }) =>
      [item, fact, supersedes, superseded_by].filter((id) => id !== null),
    );
    const find = (id: string | null): string | null => (id === null ? null : ids.find(id));
    const links = rows.map(({ item, fact, supersedes, superseded_by }) => ({
      ...{ id: find(item ?? fact), supersedes: find(supersedes), superseded_by: find(superseded_by) },
    }));
    const changed = writes
      ? await tx.query(
          `with new as (select * from jsonb_to_recordset($1::jsonb) as new (id uuid, supersedes uuid, superseded_by uuid))
           update ${table} as old ${update} returning 1`,
          [JSON.stringify(links)],
        )
      : links.filter(({ id }) => id === null);
    tally.count('succession', 'added', changed.length);
    tally.count('succession', 'present', rows.length - changed.length);
  }
}

/** Imports entities. An entity with the same name and subject as one in the project counts as already present. */
export async function importEntities(batch: ImportBatch, records: readonly RecordOf<'entity'>[]): Promise<void> {
  const { tally } = batch;
  const ids = await mapIds(batch, 'memory_entities', records, ({ id }) => id);
  const accepted = records.filter((record) => {
    const refusal = batch.refusalOf(record.subject, record.created_at, timesOf(record)) ?? injectionIn(record.name);
    if (refusal !== null) tally.refuse('entity', record.line, refusal);
    return refusal === null;
  });
  const rows = accepted.map(({ id, subject, name, created_at }) => ({
    ...{ id: ids.newIdFor(id), subject, name, folded_name: foldName(name), created_at },
  }));
  await insertNew(batch, 'entity', rows, {
    columns: 'id uuid, subject text, name text, folded_name text, created_at timestamptz',
    insert: `insert into memory_entities (id, project_id, subject, name, folded_name, created_at)
             select id, $1::uuid, subject, name, folded_name, created_at from new`,
    known: `select 1 from memory_entities known
             where known.project_id = $1::uuid and known.folded_name = new.folded_name and coalesce(known.subject, '') = coalesce(new.subject, '')`,
  });
}

export async function importFacts(batch: ImportBatch, records: readonly RecordOf<'fact'>[]): Promise<void> {
  const { tx, projectId, tally, writes } = batch;
  const ids = await mapIds(batch, 'memory_facts', records, ({ id }) => id);
  const items = await mapIds(batch, 'memory_items', records, (record) => record.items);
  const rows = new Map<string, Record<string, unknown>>();
  for (const { line, ...record } of records) {
    const refusal =
      batch.refusalOf(record.subject, record.created_at, timesOf(record)) ?? injectionIn(record.fact) ?? injectionIn(record.relation);
    const id = ids.newIdFor(record.id);
    if (refusal !== null) tally.refuse('fact', line, refusal);
    else if (ids.find(record.id) !== null || rows.has(id)) tally.count('fact', 'present');
    else {
      const fact = maskCredentials(record.fact);
      rows.set(id, {
        ...{ ...record, id, fact, line, tokens: tokenizeForIndex(fact), relation: foldRelation(record.relation) },
        ...{ source: foldName(record.source), target: foldName(record.target) },
        evidence: record.evidence === null ? null : maskCredentials(record.evidence),
        items: record.items.flatMap((item) => items.find(item) ?? []),
      });
    }
  }
  if (!writes) return tally.count('fact', 'added', rows.size);
  const added = await tx.query<{ id: string }>(
    `with new as (
       select * from jsonb_to_recordset($2::jsonb)
         as new (id uuid, subject text, source text, relation text, target text, fact text, tokens text, evidence text, items uuid[],
                 valid_from timestamptz, valid_to timestamptz, created_at timestamptz)
     ), added as (
       insert into memory_facts (id, project_id, subject, source_id, relation, target_id, fact, lexemes, words_version, evidence, valid_from,
                                 valid_to, created_at)
       select new.id, $1::uuid, new.subject, source.id, new.relation, target.id, new.fact, ${lexemesSql('new.tokens')}, ${tokenizerVersion},
              new.evidence, new.valid_from, new.valid_to, new.created_at
         from new
         join memory_entities source
           on source.project_id = $1::uuid and source.folded_name = new.source and coalesce(source.subject, '') = coalesce(new.subject, '')
         join memory_entities target
           on target.project_id = $1::uuid and target.folded_name = new.target and coalesce(target.subject, '') = coalesce(new.subject, '')
       returning id
     ), linked as (
       insert into memory_fact_items (fact_id, item_id)
       select added.id, item from added join new on new.id = added.id cross join lateral unnest(new.items) item
       on conflict do nothing
     )
     select id from added`,
    [projectId, JSON.stringify([...rows.values()])],
  );
  const addedIds = new Set(added.map(({ id }) => id));
  tally.count('fact', 'added', added.length);
  for (const [id, row] of rows) if (!addedIds.has(id)) tally.refuse('fact', Number(row.line), 'one of its entities is missing');
}

/**
 * A page may mention a memory that was removed after the page was written. We don't import such a page, but rebuild it
 * from the current memories (`items/invalidate-page.ts`).
 */
export async function importPages(batch: ImportBatch, records: readonly RecordOf<'page'>[]): Promise<void> {
  const { tx, projectId, tally, writes, clock } = batch;
  for (const { line, subject, text, updated_at } of records) {
    const refusal = batch.refusalOf(subject, updated_at) ?? injectionIn(text);
    const [state] = await tx.query<{ isPresent: boolean; isOutdated: boolean }>(
      `select exists (select 1 from memory_pages where project_id = $1::uuid and coalesce(subject, '') = coalesce($2::text, '')) as "isPresent",
              exists (select 1 from memory_items item
                       where item.project_id = $1::uuid and ${hasSameScope('item.subject', '$2')} and not ${inRecallSql}
                         and item.updated_at > $3::timestamptz) as "isOutdated"`,
      [projectId, subject, updated_at],
    );
    if (refusal !== null) tally.refuse('page', line, refusal);
    else if (state?.isPresent === true) tally.count('page', 'present');
    else if (state?.isOutdated === true) {
      tally.refuse('page', line, 'a memory was removed after the export, so the page will be rewritten');
      if (writes) await schedulePageRebuild(tx, { projectId, subject }, clock);
    } else {
      tally.count('page', 'added');
      if (!writes) continue;
      await tx.query(
        `insert into memory_pages (project_id, kind, subject, text, updated_at)
         values ($1::uuid, case when $2::text is null then 'knowledge' else 'profile' end, $2::text, $3::text, $4::timestamptz)`,
        [projectId, subject, maskCredentials(text), updated_at],
      );
    }
  }
}
