/**
 * Decides what gets deleted once a project's deletion period is over. The daily cleanup and its previews share the same
 * condition.
 */
import { type Clock, dayMs } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';

export interface DeletionRule {
  /** Null to keep everything. */
  readonly delete_conversations_after_days: number | null;
  /** True to delete conversations even if memory hasn't learned from them yet. */
  readonly delete_unlearned: boolean;
}

/** Checks whether the rule `next` can delete a conversation that the current `rule` keeps. */
export function deletesMore(next: DeletionRule, rule: DeletionRule): boolean {
  const [days, before] = [next.delete_conversations_after_days, rule.delete_conversations_after_days];
  return days !== null && (before === null || days < before || (next.delete_unlearned && !rule.delete_unlearned));
}

/**
 * Returns SQL that's true for a `conversation` that memory has finished with, i.e. if none of its messages is waiting
 * for a batch or belongs to a batch that's still running. It doesn't matter whether memory is turned on.
 *
 * `unlearned` is a boolean SQL expression. If it's true, all conversations match.
 */
export function isDueSql(unlearned: string): string {
  return `(
        ${unlearned}
        or not (learnable and batched_messages < messages)
           and not exists (
             select 1 from memory_batch_ranges range
               join memory_batch_groups part on part.batch_id = range.batch_id and part.position = range.group_position
               join memory_batches batch on batch.id = range.batch_id
              where range.conversation_id = conversation.id and part.state in ('waiting', 'learned') and batch.state = 'running'))`;
}

export interface RetentionPreview {
  /** How many conversations the next daily cleanup would delete, up to `maxPreviewed`. */
  readonly conversations: number;
  /** How many closed memories the next daily cleanup would delete. We don't count beyond `maxPreviewed`. */
  readonly closedItems: number;
  /**
   * The time of the last turn in the conversation that has been idle for the longest time. This conversation would be
   * the first to be deleted, `days` after its last turn. Null if there are no conversations.
   */
  readonly oldestTurn: Date | null;
}

export const maxPreviewed = 10_000;

/** Counts what would be deleted right now if the deletion period were `days`. */
export async function previewRetention(
  { database, clock }: { readonly database: Queries; readonly clock: Clock },
  projectId: string,
  days: number,
  unlearned = false,
): Promise<RetentionPreview> {
  const [row] = await database.query<RetentionPreview>(
    `select (select count(*)::integer from (
               select 1 from conversations conversation
                where project_id = $1::uuid and last_turn_at < $2::timestamptz and state = 'read' and ${isDueSql('$3::boolean')}
                limit ${maxPreviewed}) due) as conversations,
            (select count(*)::integer from (
               select 1 from memory_items where project_id = $1::uuid and state = 'closed' and closed_at < $2::timestamptz
                limit ${maxPreviewed}) due) as "closedItems",
            (select min(last_turn_at) from conversations where project_id = $1::uuid) as "oldestTurn"`,
    [projectId, new Date(clock.now() - days * dayMs), unlearned],
  );
  return row ?? { conversations: 0, closedItems: 0, oldestTurn: null };
}

/**
 * Checks whether the project has data older than `before` that a deletion period would delete, either now or after
 * memory has learned from it.
 */
export async function holdsDataBefore(queries: Queries, projectId: string, before: Date): Promise<boolean> {
  const [row] = await queries.query<{ holds: boolean }>(
    `select exists (select 1 from conversations where project_id = $1::uuid and last_turn_at < $2::timestamptz)
         or exists (select 1 from call_texts where project_id = $1::uuid and created_at < $2::timestamptz)
         or exists (select 1 from memory_items where project_id = $1::uuid and state = 'closed' and closed_at < $2::timestamptz)
         or exists (select 1 from memory_facts where project_id = $1::uuid and valid_to < $2::timestamptz)
         or exists (select 1 from memory_batches where project_id = $1::uuid and created_at < $2::timestamptz) as holds`,
    [projectId, before],
  );
  return row?.holds ?? false;
}

/**
 * How many days a conversation may outlive its deletion period before we report it. The daily cleanup may not run until
 * a day after the period has ended.
 */
const graceDays = 1;

/**
 * Counts conversations that are only kept because memory hasn't learned from them yet, up to `maxPreviewed`. If
 * `projectId` is null, this covers all projects.
 */
export async function countKeptUnlearned(
  { database, clock }: { readonly database: Queries; readonly clock: Clock },
  projectId: string | null,
) {
  const [row] = await database.query<{ count: number }>(
    `select count(*)::integer as count from (
       select 1
         from memory_settings setting
         join conversations conversation
           on conversation.project_id = setting.project_id and state = 'read'
          and last_turn_at < $2::timestamptz - make_interval(days => (settings ->> 'delete_conversations_after_days')::integer + ${graceDays})
        where settings ->> 'delete_conversations_after_days' is not null
          and ($1::uuid is null or setting.project_id = $1::uuid)
          and not ${isDueSql(`settings ->> 'delete_unlearned' is not distinct from 'true'`)}
        limit ${maxPreviewed}) kept`,
    [projectId, new Date(clock.now())],
  );
  return row?.count ?? 0;
}
