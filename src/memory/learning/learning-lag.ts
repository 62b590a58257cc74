/**
 * Measures how far learning is behind, i.e. for how long the most overdue message has been due.
 *
 * A message is due as soon as we put it into a batch. Until then, it's due once its conversation has been idle for
 * `idleMs` and the project's `at_least_every_minutes` have passed after that. It doesn't matter if we've closed the
 * conversation by then.
 *
 * Nobody expects us to learn these messages now, so they don't count:
 *
 * - messages of open conversations, and of conversations that consist of a single call without a subject
 * - messages of projects that have turned off memory or have no model for it
 * - messages of conversations that the next cleanup deletes
 * - messages of batches that wait for a replay, because there's a separate alert for these
 */
import type { Queries } from '../../db/database.ts';
import { defaultMemorySettings } from '../records/settings-schema.ts';

export interface LearningLagOptions {
  /** Null for all projects. */
  readonly projectId: string | null;
  readonly idleMs: number;
}

/**
 * We only look at this many conversations per project to find the oldest message that's waiting. Batches go through
 * conversations in the order of their ids, so it's in one of the first ones. It isn't always in the very first one,
 * because a conversation keeps its old id when it's reopened.
 */
const maxWaitingConversations = 100;
/**
 * Limits how many open conversations we look at. We start with those whose last turn is the longest ago, so the most
 * overdue ones are always included.
 */
const maxOpenConversations = 10_000;

/** SQL that's true for a `batch` that can't make progress until somebody changes a model or a setting. */
const isBlockedSql = `exists (
  select 1 from memory_batch_groups part
   where part.batch_id = batch.id and part.state in ('waiting', 'learned') and part.error in ('no_route', 'memory_off'))`;

/**
 * Returns by how many milliseconds learning is behind, or 0 if no message is due. Every query uses an index, and reads
 * a limited number of rows per project and per running batch, no matter how many messages are waiting.
 */
export async function measureLearningLag(queries: Queries, { projectId, idleMs }: LearningLagOptions): Promise<number> {
  const [row] = await queries.query<{ ms: number | null }>(
    `with learning as (
       select project.id, $2::double precision * interval '1 ms'
                + coalesce((setting.settings ->> 'at_least_every_minutes')::integer, ${defaultMemorySettings.at_least_every_minutes}) * interval '1 minute' as patience,
              case when setting.settings ->> 'delete_unlearned' = 'true'
                   then now() - (setting.settings ->> 'delete_conversations_after_days')::integer * interval '1 day' end as deleted_before
         from projects project
         left join memory_settings setting on setting.project_id = project.id
        where ($1::uuid is null or project.id = $1::uuid)
          and setting.settings ->> 'enabled' is distinct from 'false'
          and not exists (select 1 from memory_batches batch
                           where batch.project_id = project.id and batch.state = 'running' and ${isBlockedSql})
     ), due as (
       select waiting.last_turn_at + patience as since
         from learning
        cross join lateral (
          select min(last_turn_at) as last_turn_at
            from (select last_turn_at from conversations
                   where project_id = learning.id and state = 'read' and learnable and batched_messages < messages
                     and last_turn_at >= coalesce(deleted_before, '-infinity')
                   order by id limit ${maxWaitingConversations}) oldest
        ) waiting
       union all
       select overdue.last_turn_at + patience
         from (select project_id, last_turn_at from conversations
                where state = 'stored' and learnable and batched_messages < messages
                  and last_turn_at < now() - $2::double precision * interval '1 ms'
                order by last_turn_at limit ${maxOpenConversations}) overdue
         join learning on learning.id = overdue.project_id and overdue.last_turn_at >= coalesce(deleted_before, '-infinity')
       union all
       select batch.created_at
         from memory_batches batch join learning on learning.id = batch.project_id
        where batch.state = 'running' and batch.kind <> 'page'
     )
     select (extract(epoch from now() - min(since)) * 1000)::float8 as ms from due`,
    [projectId, idleMs],
  );
  return Math.max(0, row?.ms ?? 0);
}
