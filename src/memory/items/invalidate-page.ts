/**
 * A page that may tell a memory which is removed, corrected or left out of recall goes at once, and is written anew by a batch of its own, from
 * the memories that are live by then: it reads no messages and learns nothing.
 */
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { wakeBatch } from '../triggers/learning-triggers.ts';

/** Who removes one memory often removes another; the page is written once for all of them. */
const pauseMs = 30_000;

interface PageOwner {
  readonly projectId: string;
  /** Null: the whole project's page. */
  readonly subject: string | null;
}

export async function rewritePage(tx: Queries, owner: PageOwner, clock: Clock): Promise<void> {
  const gone = await tx.query(
    `delete from memory_pages where project_id = $1::uuid and subject is not distinct from $2::text returning 1`,
    [owner.projectId, owner.subject],
  );
  // Without one there was nothing to tell, or somebody is about to write it.
  if (gone.length > 0) await beginPageBatch(tx, owner, clock);
}

/** Unless one waits that has not been tried yet: what it will be shown is read then. */
export async function beginPageBatch(tx: Queries, { projectId, subject }: PageOwner, clock: Clock): Promise<void> {
  const [waiting] = await tx.query(
    `select 1 from memory_batch_groups part join memory_batches batch on batch.id = part.batch_id and batch.kind = 'page'
      where part.project_id = $1::uuid and part.subject is not distinct from $2::text and part.state = 'learned' and part.attempts = 0
        and batch.state = 'running'
      limit 1`,
    [projectId, subject],
  );
  if (waiting) return;
  const id = newId(clock.now());
  await tx.query(`insert into memory_batches (id, project_id, kind) values ($1::uuid, $2::uuid, 'page')`, [id, projectId]);
  await tx.query(
    `insert into memory_batch_groups (batch_id, project_id, position, subject, messages, state, next_try_at)
     values ($1::uuid, $2::uuid, 0, $3::text, 0, 'learned', $4::timestamptz)`,
    [id, projectId, subject, new Date(clock.now() + pauseMs)],
  );
  await wakeBatch(tx, { id, projectId });
}
