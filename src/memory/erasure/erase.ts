/**
 * Erases a subject in one transaction that holds the project's lock alone: all that is stored of it goes, and the fence stands from then on
 * (`fence.ts`). What is still on its way in journals and caches is the work of the processes (`keep-erasures.ts`). It cannot be undone.
 */
import { newId } from '../../core/ids.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { enqueue, type OutboxEntry } from '../../db/outbox.ts';
import { deleteOrphanedParts } from '../conversations/orphaned-parts.ts';
import { lockConversations } from '../conversations/record-calls.ts';
import { type ErasedCount, type SubjectTable, subjectTables } from './subject-tables.ts';
import { hashSubject } from './tombstones.ts';

export type ErasedCounts = Readonly<Record<ErasedCount, number>>;

export interface Erasure {
  readonly id: string;
  readonly projectId: string;
  readonly sha256: Buffer;
  readonly erasedAt: Date;
  readonly deleted: ErasedCounts;
}

export interface EraseRequest {
  readonly projectId: string;
  readonly subject: string;
  /** `key:<prefix>`, or the person. */
  readonly askedBy: string;
}

/** Processes listen here; the payload is the id. */
export const erasuresChannel = 'gateway_erasures';

const batchSize = 500;
/** Writers that hold no lock of the project (vectors, reading) may meet it the other way round. */
const maxDeadlockRetries = 5;

export function createErase({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  return async (request: EraseRequest): Promise<Erasure> => {
    for (let deadlocks = 0; ; deadlocks += 1) {
      try {
        return await database.transaction((tx) => erase(tx, newId(clock.now()), request));
      } catch (error) {
        if (deadlocks === maxDeadlockRetries || !isDeadlock(error)) throw error;
      }
    }
  };
}

/** Starting it again while its workflow runs is harmless. */
export function erasureEntry({ id, projectId }: { readonly id: string; readonly projectId: string }): OutboxEntry {
  return { workflow: 'subjectErasure', workflowId: `erasure/${id}`, projectId, input: { erasure_id: id } };
}

async function erase(tx: Queries, id: string, { projectId, subject, askedBy }: EraseRequest): Promise<Erasure> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended($1::text, 0))`, [projectId]);
  // After the project's, as whoever stores calls: against cleanup, which holds this one alone.
  await lockConversations(tx, [projectId]);
  const sha256 = hashSubject(subject);
  const [tombstone] = await tx.query<{ erasedAt: Date }>(
    `insert into erasures (id, project_id, subject_sha256, erased_at, asked_by, deleted)
     values ($1::uuid, $2::uuid, $3::bytea, clock_timestamp(), $4::text, '{}')
     returning erased_at as "erasedAt"`,
    [id, projectId, sha256, askedBy],
  );
  if (!tombstone) throw new Error('the fence was not written');
  await recordRuns(tx, id, projectId, subject);
  const counts = { memories: 0, profile_pages: 0, episodes: 0, calls: 0, call_parts: 0, graph_facts: 0 };
  counts.call_parts = await eraseCallTexts(tx, projectId, subject);
  for (const table of subjectTables) {
    const count = await eraseTable(tx, table, [projectId, table.by === 'subject' ? subject : sha256]);
    if (table.count) counts[table.count] = count;
  }
  await deleteOrphans(tx, projectId);
  await tx.query(`update erasures set deleted = $2::jsonb where id = $1::uuid`, [id, JSON.stringify(counts)]);
  await enqueue(tx, [erasureEntry({ id, projectId })]);
  await tx.query(`select pg_notify('${erasuresChannel}', $1::text)`, [id]);
  return { id, projectId, sha256, erasedAt: tombstone.erasedAt, deleted: counts };
}

/** Each opening of a conversation had a workflow run of its own (`idle-entry.ts`). */
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

/** Prompts and answers of all calls that named the subject, then the parts that only they needed. */
async function eraseCallTexts(tx: Queries, projectId: string, subject: string): Promise<number> {
  const tips = new Map<string, Buffer>();
  for (;;) {
    const rows = await tx.query<{ lastHash: Buffer | null }>(
      `delete from call_texts
        where call_id in (select call_id from call_texts where project_id = $1::uuid and subject = $2::text limit ${batchSize})
       returning last_hash as "lastHash"`,
      [projectId, subject],
    );
    if (rows.length === 0) return deleteOrphanedParts(tx, projectId, [...tips.values()]);
    for (const { lastHash } of rows) if (lastHash) tips.set(lastHash.toString('latin1'), lastHash);
  }
}

async function eraseTable(tx: Queries, { table, key, where, set }: SubjectTable, values: readonly unknown[]): Promise<number> {
  const verb = set === undefined ? `delete from ${table}` : `update ${table} set ${set}`;
  let count = 0;
  for (;;) {
    const rows = await tx.query(
      `${verb} where (${key}) in (select ${key} from ${table} where ${where} order by ${key} limit ${batchSize}) returning 1`,
      values,
    );
    if (rows.length === 0) return count;
    count += rows.length;
  }
}

/** What has no subject of its own but may have come from this one: entities that no fact speaks of, and frequent words, counted anew later. */
async function deleteOrphans(tx: Queries, projectId: string): Promise<void> {
  await tx.query(
    `delete from memory_entities entity
      where entity.project_id = $1::uuid
        and not exists (select 1 from memory_facts fact where fact.source_id = entity.id or fact.target_id = entity.id)`,
    [projectId],
  );
  await tx.query(`delete from memory_words where project_id = $1::uuid`, [projectId]);
  await tx.query(`update memory_embeddings set counted_at = null where project_id = $1::uuid and counted_at is not null`, [projectId]);
}

function isDeadlock(error: unknown): boolean {
  return isObject(error) && error.code === '40P01';
}
