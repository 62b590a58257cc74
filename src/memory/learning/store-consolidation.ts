/**
 * Stores a consolidation: closes merged memories, writes and supersedes facts, and writes the page. Every statement
 * names the project and the subject and only matches live rows. So if something was closed, ended or erased during the
 * model call, it stays that way.
 */
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { expireOrphanedFacts } from '../items/expire-facts.ts';
import { invalidatePage, schedulePageRebuild } from '../items/invalidate-page.ts';
import { inheritVotes } from '../items/votes.ts';
import { inRecallSql, learningAuthor, maxCount } from '../records/item-record.ts';
import { deleteItemPassage } from '../records/passages.ts';
import { foldName, lexemesSql, tokenizeForIndex, tokenizerVersion } from '../text/lexemes.ts';
import type { Consolidation, ConsolidationContext, Merge, NewFact } from './consolidation.ts';
import type { Group } from './groups.ts';

interface ConsolidationWrite {
  readonly group: Group;
  readonly context: ConsolidationContext;
  readonly consolidation: Consolidation;
  readonly clock: Clock;
}

export async function storeConsolidation(
  tx: Queries,
  { group, context, consolidation, clock }: ConsolidationWrite,
): Promise<{ merged: number; facts: number }> {
  const isCurrent = await lockAndCompare(tx, group, context);
  /** The memories that were just merged, and the ones that they were merged into. */
  const merged = new Map<string, string>();
  for (const merge of consolidation.merges) for (const id of await storeMerge(tx, group, merge, clock)) merged.set(id, merge.keep);
  let facts = 0;
  let outdated = 0;
  for (const fact of consolidation.facts) {
    const stored = await storeFact(tx, group, { ...fact, basisId: merged.get(fact.itemId) ?? fact.itemId }, clock);
    facts += stored.facts;
    outdated += stored.outdated;
  }
  if (!isCurrent) await schedulePageRebuild(tx, group, clock);
  else if (consolidation.page !== null) await storePage(tx, group, consolidation.page);
  // The model's page was unusable, and the old one still says what was just replaced.
  else if (outdated > 0) await invalidatePage(tx, group, clock);
  return { merged: merged.size, facts };
}

/**
 * Locks the memories that were in the prompt. Returns false if one of these memories or facts is no longer valid,
 * because the page that the model wrote might mention it.
 */
async function lockAndCompare(tx: Queries, { projectId, subject }: Group, { added, known, facts }: ConsolidationContext): Promise<boolean> {
  const ids = [...added, ...known].map(({ id }) => id);
  const current = await tx.query(
    `select 1 from memory_items item
      where id = any($3::uuid[]) and project_id = $1::uuid and subject is not distinct from $2::text and ${inRecallSql}
      order by id
        for update`,
    [projectId, subject, ids],
  );
  const valid = await tx.query(`select 1 from memory_facts where id = any($1::uuid[]) and valid_to is null`, [facts.map(({ id }) => id)]);
  return current.length === ids.length && valid.length === facts.length;
}

/** Returns the ids of the memories that were closed. */
async function storeMerge(tx: Queries, group: Group, { keep, drop }: Merge, clock: Clock): Promise<readonly string[]> {
  const live = await tx.query<{ id: string; inRecall: boolean }>(
    `select id, ${inRecallSql} as "inRecall" from memory_items item
      where id = any($3::uuid[]) and project_id = $1::uuid and subject is not distinct from $2::text and state = 'live'
      order by id
        for update`,
    [group.projectId, group.subject, [keep, ...drop]],
  );
  // If the memory to keep was excluded from recall in the meantime, the others have to stay.
  if (!live.some(({ id, inRecall }) => id === keep && inRecall)) return [];
  const now = new Date(clock.now());
  const closed = await tx.query<{ id: string }>(
    `update memory_items
        set state = 'closed', closed_at = $3::timestamptz, closed_by = $4::text, updated_at = $3::timestamptz, superseded_by = $2::uuid
      where id = any($1::uuid[]) and origin = 'observed' and not pinned
     returning id`,
    [live.map(({ id }) => id).filter((id) => id !== keep), keep, now, learningAuthor],
  );
  const closedIds = closed.map(({ id }) => id);
  // The memory that stays gets the highest importance of the merged memories, and their `useful` ratings are added to
  // its own.
  await tx.query(
    `update memory_items kept
        set ratings_useful = least(kept.ratings_useful + merged.useful, ${maxCount}), importance = greatest(kept.importance, merged.importance), updated_at = $3::timestamptz
       from (select coalesce(sum(ratings_useful), 0) as useful, coalesce(max(importance), 1)::smallint as importance
               from memory_items where id = any($2::uuid[])) merged
      where kept.id = $1::uuid`,
    [keep, closedIds, now],
  );
  await inheritVotes(tx, keep, closedIds);
  for (const id of closedIds) {
    await deleteItemPassage(tx, id);
    // Facts that were based on this memory are now based on the one that we keep.
    await tx.query(
      `insert into memory_fact_items (fact_id, item_id) select fact_id, $2::uuid from memory_fact_items where item_id = $1::uuid
       on conflict do nothing`,
      [id, keep],
    );
  }
  return closedIds;
}

/**
 * `basisId` is the memory that says the same as the fact's own memory, because the two were merged. Don't follow
 * `superseded_by` instead, because it can also lead to a correction that says the opposite.
 */
async function storeFact(
  tx: Queries,
  group: Group,
  fact: NewFact & { readonly basisId: string },
  clock: Clock,
): Promise<{ facts: number; outdated: number }> {
  const { projectId, subject, batchId } = group;
  const [item] = await tx.query<{ id: string; evidence: string | null }>(
    `select basis.id, item.evidence
       from memory_items item
       join memory_items basis on basis.id = $4::uuid and basis.state = 'live'
      where item.id = $1::uuid and item.project_id = $2::uuid and item.subject is not distinct from $3::text`,
    [fact.itemId, projectId, subject, fact.basisId],
  );
  if (!item) return { facts: 0, outdated: 0 };
  const source = await getOrCreateEntity(tx, group, fact.source, clock);
  const target = await getOrCreateEntity(tx, group, fact.target, clock);
  const [existing] = await tx.query<{ id: string }>(
    `select id from memory_facts
      where source_id = $1::uuid and relation = $2::text and target_id = $3::uuid and valid_to is null limit 1`,
    [source, fact.relation, target],
  );
  const id = existing?.id ?? newId(clock.now());
  const now = new Date(clock.now());
  if (!existing) {
    await tx.query(
      // As for memories, take the time from the database after locking the project. An export contains everything that
      // was created before it locked the project, so this time decides whether the fact is included.
      `insert into memory_facts (id, project_id, subject, source_id, relation, target_id, fact, lexemes, words_version, evidence, batch_id,
                                 valid_from, created_at)
       values ($1::uuid, $2::uuid, $3::text, $4::uuid, $5::text, $6::uuid, $7::text, ${lexemesSql('$8::text')}, ${tokenizerVersion}, $9::text,
               $10::uuid, $11::timestamptz, clock_timestamp())`,
      [id, projectId, subject, source, fact.relation, target, fact.fact, tokenizeForIndex(fact.fact), item.evidence, batchId, now],
    );
  }
  await tx.query(`insert into memory_fact_items (fact_id, item_id) values ($1::uuid, $2::uuid) on conflict do nothing`, [id, item.id]);
  let outdated = 0;
  if (fact.replaces !== null) {
    const [ended] = await tx.query(
      `update memory_facts set valid_to = $5::timestamptz, superseded_by = $2::uuid
        where id = $1::uuid and id <> $2::uuid and source_id = $3::uuid and relation = $4::text and valid_to is null
       returning id`,
      [fact.replaces, id, source, fact.relation, now],
    );
    if (ended) outdated = await closeOutdatedItems(tx, projectId, { endedFactId: fact.replaces, itemId: item.id, now });
  }
  return { facts: existing ? 0 : 1, outdated };
}

async function getOrCreateEntity(tx: Queries, { projectId, subject }: Group, name: string, clock: Clock): Promise<string> {
  await tx.query(
    `insert into memory_entities (id, project_id, subject, name, folded_name) values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text)
     on conflict do nothing`,
    [newId(clock.now()), projectId, subject, name, foldName(name)],
  );
  const [row] = await tx.query<{ id: string }>(
    `select id from memory_entities where project_id = $1::uuid and coalesce(subject, '') = coalesce($2::text, '') and folded_name = $3::text`,
    [projectId, subject, foldName(name)],
  );
  if (!row) throw new Error('expected to find the entity that was just inserted');
  return row.id;
}

/**
 * After a fact has ended, closes the memories it was learned from, unless another valid fact is based on them. `itemId`
 * becomes their successor. Returns how many memories were closed.
 */
async function closeOutdatedItems(
  tx: Queries,
  projectId: string,
  { endedFactId, itemId, now }: { readonly endedFactId: string; readonly itemId: string; readonly now: Date },
): Promise<number> {
  const closed = await tx.query<{ id: string }>(
    `update memory_items item
        set state = 'closed', closed_at = $4::timestamptz, closed_by = $5::text, updated_at = $4::timestamptz, superseded_by = $3::uuid
      where item.id in (select item_id from memory_fact_items where fact_id = $1::uuid) and item.id <> $3::uuid
        and item.project_id = $2::uuid and item.state = 'live' and item.origin = 'observed' and not item.pinned
        and not exists (select 1 from memory_fact_items link join memory_facts fact on fact.id = link.fact_id
                         where link.item_id = item.id and fact.valid_to is null)
     returning item.id`,
    [endedFactId, projectId, itemId, now, learningAuthor],
  );
  const ids = closed.map(({ id }) => id);
  for (const id of ids) await deleteItemPassage(tx, id);
  await expireOrphanedFacts(tx, ids);
  return ids.length;
}

async function storePage(tx: Queries, { projectId, subject, batchId }: Group, text: string): Promise<void> {
  await tx.query(
    `insert into memory_pages (project_id, kind, subject, text, batch_id, updated_at)
     values ($1::uuid, case when $2::text is null then 'knowledge' else 'profile' end, $2::text, $3::text, $4::uuid, clock_timestamp())
     on conflict (project_id, kind, coalesce(subject, '')) do update
       set text = excluded.text, batch_id = excluded.batch_id, updated_at = excluded.updated_at`,
    [projectId, subject, text, batchId],
  );
}
