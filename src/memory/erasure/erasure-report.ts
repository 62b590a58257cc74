/** Erasures as they are told: the receipt of the one who erases (shapes 7), and how far each is, with what all processes have done for it. */
import { formatTime } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import type { ErasedCounts, Erasure } from './erase.ts';

/** What a process forgot of a subject besides the database. */
export interface LocalPurge {
  readonly cacheEntries: number;
  /** Calls under way, which go on without text. */
  readonly openCalls: number;
}

/** What the answering process can tell at once. */
export function toReceiptJson(erasure: Erasure, { cacheEntries, openCalls }: LocalPurge): Record<string, unknown> {
  return toErasureJson({ ...erasure, cacheEntries, queued: openCalls, state: 'queued', purged: 0 });
}

/** Null when the project has none with that id. */
export async function findErasure(database: Queries, projectId: string, id: string): Promise<Record<string, unknown> | null> {
  const [row] = await database.query<ErasureRow>(`${selectErasures} where erasure.project_id = $1::uuid and erasure.id = $2::uuid`, [
    projectId,
    id,
  ]);
  return row ? toRowJson(row) : null;
}

/** Newest first. */
export async function listErasures(database: Queries, projectId: string, limit: number): Promise<Record<string, unknown>[]> {
  const rows = await database.query<ErasureRow>(
    `${selectErasures} where erasure.project_id = $1::uuid order by erasure.id desc limit $2::integer`,
    [projectId, limit],
  );
  return rows.map(toRowJson);
}

interface ErasureRow extends ErasureSummary {
  readonly askedBy: string;
  readonly doneAt: Date | null;
  readonly processes: number;
  readonly drained: number;
}

const selectErasures = `
  select erasure.id, erasure.subject_sha256 as sha256, erasure.erased_at as "erasedAt", erasure.asked_by as "askedBy", erasure.state,
         erasure.deleted, erasure.purged, erasure.done_at as "doneAt", told.cache_entries as "cacheEntries",
         told.open_calls + erasure.discarded as queued, told.processes, told.drained
    from erasures erasure
   cross join lateral (
     select coalesce(sum(cache_entries), 0)::integer as cache_entries, coalesce(sum(open_calls), 0)::integer as open_calls,
            count(*)::integer as processes, count(drained_at)::integer as drained
       from erasure_processes where erasure_id = erasure.id
   ) told`;

function toRowJson(row: ErasureRow): Record<string, unknown> {
  return {
    ...toErasureJson(row),
    asked_by: row.askedBy,
    processes: { told: row.processes, drained: row.drained },
    done_at: row.doneAt ? formatTime(row.doneAt.getTime()) : null,
  };
}

interface ErasureSummary {
  readonly id: string;
  readonly sha256: Buffer;
  readonly erasedAt: Date;
  readonly deleted: ErasedCounts;
  readonly cacheEntries: number;
  readonly queued: number;
  readonly state: 'queued' | 'waiting' | 'done';
  readonly purged: number;
}

function toErasureJson({ id, sha256, erasedAt, deleted, cacheEntries, queued, state, purged }: ErasureSummary): Record<string, unknown> {
  return {
    object: 'memory.erasure',
    id,
    subject_sha256: sha256.toString('hex'),
    erased_at: formatTime(erasedAt.getTime()),
    deleted: { ...deleted, cache_entries: cacheEntries, queued_messages: queued },
    // Histories hold ids and hashes only (decisions 8).
    workflows: { id: `erasure/${id}`, state, purged, text_in_history: false },
  };
}
