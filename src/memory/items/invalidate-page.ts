/**
 * A page that may tell a memory which is removed, corrected or left out of recall goes at once, and is written anew by a batch of its own, from
 * the memories that are live by then: it reads no messages and learns nothing.
 */
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { signalBatch } from '../triggers/learning-triggers.ts';

/** Who removes one memory often removes another; the page is written once for all of them. */
const rebuildDelayMs = 30_000;

interface PageScope {
  readonly projectId: string;
  /** Null: the whole project's page. */
  readonly subject: string | null;
}

export async function invalidatePage(tx: Queries, scope: PageScope, clock: Clock): Promise<void> {
  const deleted = await tx.query(
    `delete from memory_pages where project_id = $1::uuid and subject is not distinct from $2::text returning 1`,
    [scope.projectId, scope.subject],
  );
  // Without one there was nothing to tell, or somebody is about to write it.
  if (deleted.length > 0) await schedulePageRebuild(tx, scope, clock);
}

/** Unless one waits that has not been tried yet: what it will be shown is read then. */
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
