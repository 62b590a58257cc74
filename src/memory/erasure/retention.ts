/**
 * Deletes data that is older than the retention period of its project (docs/api/reference.md#memory-rules). It doesn't
 * matter if memory is on or off. We delete
 *
 * - closed conversations by their last turn, together with the prompts of their calls
 * - prompts of calls without a conversation, because they failed or were sent with `off`
 * - closed memories
 * - facts that have ended, and entities without any other fact
 * - finished batches, including the focus and vendor errors of their groups
 *
 * Live memories and open conversations are kept. A conversation is also kept if no batch has learned from some of its
 * messages yet, unless the project sets `delete_unlearned`. If a message's group was given up, or its batch ended
 * without learning it, we don't wait for that message. A failed batch is kept until it's replayed.
 *
 * Each call deletes one batch in a short transaction, so the project's writers never have to wait for long.
 */
import { type Clock, dayMs } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockConversations, lockMemories } from '../../db/locks.ts';
import { deleteReleasedParts } from '../conversations/released-parts.ts';
import { isDueSql } from '../records/deletion-rule.ts';
import { applyPendingDeletions } from '../records/settings.ts';
import { deleteOrphanedEntities } from './orphaned-entities.ts';

/**
 * The number of conversations that one statement deletes. For conversations of typical length, that takes a few
 * milliseconds.
 */
const conversationBatchSize = 100;
const rowBatchSize = 500;

export type Retention = ReturnType<typeof createRetention>;

/**
 * Each function deletes a single batch, from the first project in which there's anything to delete. It returns the
 * number of deleted rows, or 0 if there's nothing left.
 */
export function createRetention({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  const inFirstDueProject = (deleteBatch: DeleteBatch) => (): Promise<number> => deleteInFirstDueProject({ database, clock }, deleteBatch);
  return {
    /** Puts pending deletion rules into force after their day of notice. */
    periods: () => applyPendingDeletions(database, clock.now()),
    conversations: inFirstDueProject(deleteConversations),
    /** Deletes prompts that don't belong to a conversation. */
    unfiledPrompts: inFirstDueProject(deleteUnfiledPrompts),
    /** Deletes parts that an older release left behind when it deleted their prompts. */
    releasedParts: () => deleteReleased(database),
    closedItems: inFirstDueProject(deleteRows('memory_items', `state = 'closed' and closed_at < $2::timestamptz`, 'closed_at')),
    /**
     * Deletes facts that have ended. They quote what a user said, like the closed memories that they were learned from.
     */
    endedFacts: inFirstDueProject(deleteEndedFacts),
    batches: inFirstDueProject(deleteRows('memory_batches', `state = 'done' and finished_at < $2::timestamptz`, 'id')),
  };
}

async function deleteReleased(database: Database): Promise<number> {
  const [row] = await database.query<{ projectId: string }>('select project_id as "projectId" from released_parts limit 1');
  if (!row) return 0;
  await database.transaction(async (tx) => {
    await lockConversations(tx, row.projectId);
    await deleteReleasedParts(tx, row.projectId);
  });
  return 1;
}

export interface RetentionPeriod {
  readonly projectId: string;
  readonly before: Date;
  /** True if conversations that memory hasn't learned from yet are deleted too. */
  readonly unlearned: boolean;
}

/**
 * Deletes a batch of rows that are older than the retention period of their project, and returns how many there were.
 */
export type DeleteBatch = (tx: Queries, period: RetentionPeriod) => Promise<number>;

/** Calls `deleteBatch` for one project after the other, until there's one in which it has deleted something. */
export async function deleteInFirstDueProject(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  deleteBatch: DeleteBatch,
): Promise<number> {
  for (const { projectId } of await findRetentionPeriods(database, clock.now())) {
    const deleted = await database.transaction(async (tx) => {
      // We need this lock for two reasons.
      //
      // Calls take it when they add messages to a conversation. So a call either updates last_turn_at before we look,
      // or finds that the conversation is gone and opens a new one.
      //
      // Erasures take it too. An erasure deletes rows in batches and stops after an empty one. If we deleted the rows
      // of its next batch at the same time, that batch would be empty and the erasure would stop too early.
      await lockConversations(tx, projectId);
      // Somebody may have lengthened the period while we were waiting, so read it again. Until we're done, nobody can
      // change it, because changes of the memory settings lock the project's row for update.
      await tx.query(`select 1 from projects where id = $1::uuid for key share`, [projectId]);
      const [period] = await findRetentionPeriods(tx, clock.now(), projectId);
      return period ? deleteBatch(tx, period) : 0;
    });
    if (deleted > 0) return deleted;
  }
  return 0;
}

/**
 * Returns all projects with a retention period, and their cutoff dates as of `now`. If `projectId` is given, only
 * returns that project.
 */
export async function findRetentionPeriods(queries: Queries, now: number, projectId: string | null = null): Promise<RetentionPeriod[]> {
  const rows = await queries.query<{ projectId: string; days: number; unlearned: boolean }>(
    `select project_id as "projectId", (settings ->> 'delete_conversations_after_days')::integer as days,
            settings ->> 'delete_unlearned' is not distinct from 'true' as unlearned
       from memory_settings
      where settings ->> 'delete_conversations_after_days' is not null and ($1::uuid is null or project_id = $1::uuid)
      order by project_id`,
    [projectId],
  );
  return rows.map(({ projectId: id, days, unlearned }) => ({ projectId: id, before: new Date(now - days * dayMs), unlearned }));
}

async function deleteConversations(tx: Queries, { projectId, before, unlearned }: RetentionPeriod): Promise<number> {
  const rows = await tx.query<{ id: string }>(
    `select id from conversations conversation
      where project_id = $1::uuid and last_turn_at < $2::timestamptz and state = 'read' and ${isDueSql('$4::boolean')}
      order by last_turn_at, id limit $3::integer
      for update`,
    [projectId, before, conversationBatchSize, unlearned],
  );
  if (rows.length === 0) return 0;
  const ids = rows.map(({ id }) => id);
  await tx.query(`delete from call_texts where conversation_id = any($1::uuid[])`, [ids]);
  await tx.query(`delete from conversations where id = any($1::uuid[])`, [ids]);
  await deleteReleasedParts(tx, projectId);
  return ids.length;
}

async function deleteUnfiledPrompts(tx: Queries, { projectId, before }: RetentionPeriod): Promise<number> {
  const texts = await tx.query(
    `delete from call_texts where call_id in (
       select call_id from call_texts
        where project_id = $1::uuid and conversation_id is null and created_at < $2::timestamptz
        order by created_at limit $3::integer)
     returning 1`,
    [projectId, before, conversationBatchSize],
  );
  await deleteReleasedParts(tx, projectId);
  return texts.length;
}

async function deleteEndedFacts(tx: Queries, { projectId, before }: RetentionPeriod): Promise<number> {
  // Otherwise a batch could store a new fact about an entity that we're just deleting.
  await lockMemories(tx, projectId);
  const facts = await tx.query<{ sourceId: string; targetId: string }>(
    `delete from memory_facts where id in (
       select id from memory_facts
        where project_id = $1::uuid and valid_to < $2::timestamptz
        order by valid_to limit $3::integer)
     returning source_id as "sourceId", target_id as "targetId"`,
    [projectId, before, rowBatchSize],
  );
  await deleteOrphanedEntities(tx, [...new Set(facts.flatMap(({ sourceId, targetId }) => [sourceId, targetId]))]);
  return facts.length;
}

/** Returns a function that deletes rows of a project. In `condition`, $2 is the cutoff date. */
function deleteRows(table: 'memory_items' | 'memory_batches', condition: string, order: string) {
  return async (tx: Queries, { projectId, before }: RetentionPeriod): Promise<number> => {
    const rows = await tx.query(
      `delete from ${table} where id in (
         select id from ${table}
          where project_id = $1::uuid and ${condition}
          order by ${order} limit $3::integer)
       returning id`,
      [projectId, before, rowBatchSize],
    );
    return rows.length;
  };
}
