/**
 * Erases a subject in one transaction under the project's exclusive lock. We delete the stored data of the subject and
 * write a tombstone, which rejects data that arrives later (`tombstones.ts`). Every process then purges its own journal
 * and caches (`erasure-listener.ts`). An erasure can't be undone, although an import can restore memory data from an
 * export.
 */

import { retry } from '../../core/backoff.ts';
import { errorCode } from '../../core/error-messages.ts';
import { newId } from '../../core/ids.ts';
import { hashSubject } from '../../core/subject.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockConversations, lockProject } from '../../db/locks.ts';
import { enqueue, type OutboxEntry } from '../../db/outbox.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { batchSize } from '../../db/row-batches.ts';
import { deleteReleasedParts } from '../conversations/released-parts.ts';
import { wrongAfter } from '../records/item-record.ts';
import { resampleWords } from '../records/word-sample.ts';
import { deleteOrphanedEntities } from './orphaned-entities.ts';
import { bySubject, type ErasedCount, type SubjectTable, subjectTables } from './subject-tables.ts';
import type { Tombstone } from './tombstones.ts';

export type ErasedCounts = Readonly<Record<ErasedCount, number>>;

export interface Erasure extends Tombstone {
  readonly deleted: ErasedCounts;
}

export interface EraseRequest {
  readonly projectId: string;
  readonly subject: string;
  /** Either `key:<prefix>` or `person:<id>`. */
  readonly askedBy: string;
}

/** The NOTIFY channel. Its payload is the id of the erasure. */
export const erasuresChannel = 'gateway_erasures';

/**
 * The maximum number of retries after a deadlock. Embeddings and idle timers don't take the project lock when they
 * write, so they may lock the same rows in a different order.
 */
const maxDeadlockRetries = 5;

export function createErase({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  return (request: EraseRequest): Promise<Erasure> =>
    retry(() => databaseOf(database, request.projectId).transaction((tx) => erase(tx, newId(clock.now()), request)), {
      delays: Array<number>(maxDeadlockRetries).fill(0),
      isRetryable: (error) => errorCode(error) === '40P01',
    });
}

/**
 * Returns the outbox entry for the erasure's workflow. If the workflow is already running, enqueueing the entry again
 * has no effect.
 */
export function toErasureEntry({ id, projectId }: { readonly id: string; readonly projectId: string }): OutboxEntry {
  return { workflow: 'subjectErasure', workflowId: `erasure/${id}`, projectId, input: { erasure_id: id } };
}

async function erase(tx: Queries, id: string, { projectId, subject, askedBy }: EraseRequest): Promise<Erasure> {
  await lockProject(tx, projectId, 'exclusive');
  // Retention takes the conversations lock but not the project lock, so take both.
  await lockConversations(tx, projectId);
  const sha256 = hashSubject(subject);
  const [tombstone] = await tx.query<{ erasedAt: Date }>(
    `insert into erasures (id, project_id, subject_sha256, erased_at, asked_by, deleted)
     values ($1::uuid, $2::uuid, $3::bytea, clock_timestamp(), $4::text, '{}')
     returning erased_at as "erasedAt"`,
    [id, projectId, sha256, askedBy],
  );
  if (!tombstone) throw new Error('expected the insert of the erasure to return a row');
  await recordRuns(tx, id, projectId, subject);
  const counts = { memories: 0, profile_pages: 0, episodes: 0, calls: 0, call_parts: 0, graph_facts: 0 };
  counts.call_parts = await eraseCallTexts(tx, projectId, subject);
  const entityIds = await findEntities(tx, projectId, subject);
  await takeBackVotes(tx, projectId, subject);
  let passages = 0;
  // Not part of the receipt. It tells `delete-empty.ts` that the erasure found something.
  let other = 0;
  for (const table of subjectTables) {
    const count = await eraseTable(tx, table, [projectId, table.bySha256 ? sha256 : subject]);
    if (table.count) counts[table.count] = count;
    else other += count;
    if (table.table === 'memory_passages') passages = count;
  }
  await deleteOrphanedEntities(tx, entityIds);
  if (passages > 0) await resampleWords(tx, projectId);
  await tx.query(`update erasures set deleted = $2::jsonb where id = $1::uuid`, [id, JSON.stringify({ ...counts, other })]);
  await enqueue(tx, [toErasureEntry({ id, projectId })]);
  await tx.query(`select pg_notify('${erasuresChannel}', $1::text)`, [id]);
  return { id, projectId, sha256, erasedAt: tombstone.erasedAt, deleted: counts };
}

/**
 * Older versions started a workflow run each time a conversation was opened. Temporal may still have those runs, so
 * this records their ids for the steps that delete them.
 */
async function recordRuns(tx: Queries, erasureId: string, projectId: string, subject: string): Promise<void> {
  await tx.query(
    `insert into erasure_runs (erasure_id, workflow_id)
     select $1::uuid, 'conversation/' || id || '/' || opening
       from conversations
      cross join lateral generate_series(1, opened) opening
      where project_id = $2::uuid and subject = $3::text`,
    [erasureId, projectId, subject],
  );
}

/** Deletes prompts and responses of the subject's calls, and then the parts that nothing else refers to. */
async function eraseCallTexts(tx: Queries, projectId: string, subject: string): Promise<number> {
  for (;;) {
    const rows = await tx.query(
      `delete from call_texts
        where call_id in (select call_id from call_texts where project_id = $1::uuid and subject = $2::text limit ${batchSize})
       returning 1`,
      [projectId, subject],
    );
    if (rows.length === 0) return deleteReleasedParts(tx, projectId);
  }
}

async function eraseTable(tx: Queries, { table, key, where, set }: SubjectTable, values: readonly unknown[]): Promise<number> {
  const verb = set === undefined ? `delete from ${table}` : `update ${table} set ${set}`;
  let count = 0;
  for (;;) {
    const rows = await tx.query(
      `${verb} where (${key}) in (select ${key} from ${table} where ${where(bySubject)} order by ${key} limit ${batchSize}) returning 1`,
      values,
    );
    if (rows.length === 0) return count;
    count += rows.length;
  }
}

/**
 * Subtracts the votes of the subject's calls from the ratings of project-wide memories. The erasure also deletes the
 * votes themselves. Without this correction, a key that votes again would be counted twice.
 */
async function takeBackVotes(tx: Queries, projectId: string, subject: string): Promise<void> {
  const wrong = wrongAfter('-erased.wrong');
  await tx.query(
    `update memory_items item
        set ratings_useful = greatest(0, item.ratings_useful - erased.useful), ratings_wrong = ${wrong},
            wrong_overruled = least(item.wrong_overruled, ${wrong})
       from (select item_id, count(*) filter (where useful)::integer as useful, count(*) filter (where not useful)::integer as wrong
               from memory_votes where project_id = $1::uuid and subject = $2::text group by item_id) erased
      where item.id = erased.item_id`,
    [projectId, subject],
  );
}

async function findEntities(tx: Queries, projectId: string, subject: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select source_id as id from memory_facts where project_id = $1::uuid and subject = $2::text
     union select target_id from memory_facts where project_id = $1::uuid and subject = $2::text`,
    [projectId, subject],
  );
  return rows.map(({ id }) => id);
}
