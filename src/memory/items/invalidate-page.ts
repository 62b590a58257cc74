/**
 * Deletes a knowledge or profile page when one of its memories is removed, corrected or excluded from recall. A batch
 * of kind `page` then builds the page again from the live memories, without reading messages or learning anything.
 */
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { signalBatch } from '../triggers/learning-triggers.ts';

/** People often remove several memories in a row, so we wait before we rebuild the page. */
const rebuildDelayMs = 30_000;

interface PageScope {
  readonly projectId: string;
  /** The end user whose profile page it is. Null for the knowledge page of the whole project. */
  readonly subject: string | null;
}

export async function invalidatePage(tx: Queries, scope: PageScope, clock: Clock): Promise<void> {
  const deleted = await tx.query(
    `delete from memory_pages where project_id = $1::uuid and subject is not distinct from $2::text returning 1`,
    [scope.projectId, scope.subject],
  );
  // If there's no page, it either hasn't been published yet or is already scheduled to be rebuilt.
  if (deleted.length > 0) await schedulePageRebuild(tx, scope, clock);
}

/**
 * Schedules a rebuild of the page. Does nothing if one is already waiting to start, because it'll use the current
 * memories anyway.
 */
export async function schedulePageRebuild(tx: Queries, { projectId, subject }: PageScope, clock: Clock): Promise<void> {
  const [pending] = await tx.query(
    `select 1 from memory_batch_groups part join memory_batches batch on batch.id = part.batch_id and batch.kind = 'page'
      where part.project_id = $1::uuid and part.subject is not distinct from $2::text and part.state = 'learned' and part.attempts = 0
        and batch.state = 'running'
      limit 1`,
    [projectId, subject],
  );
  if (pending) return;
  const id = newId(clock.now());
  await tx.query(`insert into memory_batches (id, project_id, kind) values ($1::uuid, $2::uuid, 'page')`, [id, projectId]);
  await tx.query(
    `insert into memory_batch_groups (batch_id, project_id, position, subject, messages, state, next_try_at)
     values ($1::uuid, $2::uuid, 0, $3::text, 0, 'learned', $4::timestamptz)`,
    [id, projectId, subject, new Date(clock.now() + rebuildDelayMs)],
  );
  await signalBatch(tx, { id, projectId });
}
