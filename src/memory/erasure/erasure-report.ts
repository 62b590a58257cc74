import type { Queries } from '../../db/database.ts';
import type { Erasure } from './erase.ts';

/** How much data of the erased subject this process still had in memory. */
export interface LocalPurge {
  readonly cacheEntries: number;
  /** The number of the subject's calls that are in flight. They can finish, but we don't record their text. */
  readonly openCalls: number;
}

export interface ErasureSummary extends Omit<Erasure, 'projectId'> {
  readonly cacheEntries: number;
  readonly queued: number;
  readonly state: 'queued' | 'waiting' | 'done';
  readonly purged: number;
}

export interface ErasureReport extends ErasureSummary {
  readonly askedBy: string;
  readonly doneAt: Date | null;
  /** The time of an import that has restored data from before the erasure. Null if there was none. */
  readonly restoredAt: Date | null;
  readonly processes: number;
  readonly drained: number;
}

/** Creates the receipt right after the erasure was committed. So far only this process has been purged. */
export function createReceipt(erasure: Erasure, { cacheEntries, openCalls }: LocalPurge): ErasureSummary {
  return { ...erasure, cacheEntries, queued: openCalls, state: 'queued', purged: 0 };
}

export async function findErasure(database: Queries, projectId: string, id: string): Promise<ErasureReport | null> {
  const [row] = await database.query<ErasureReport>(`${selectReports} where erasure.project_id = $1::uuid and erasure.id = $2::uuid`, [
    projectId,
    id,
  ]);
  return row ?? null;
}

/** Lists the newest erasures first. If `before` is the id of an erasure, only older ones are listed. */
export function listErasures(database: Queries, projectId: string, limit: number, before: string | null = null): Promise<ErasureReport[]> {
  return database.query<ErasureReport>(
    `${selectReports} where erasure.project_id = $1::uuid and ($3::uuid is null or erasure.id < $3::uuid)
      order by erasure.id desc limit $2::integer`,
    [projectId, limit, before],
  );
}

const selectReports = `
  select erasure.id, erasure.subject_sha256 as sha256, erasure.erased_at as "erasedAt", erasure.asked_by as "askedBy", erasure.state,
         erasure.deleted - 'other' as deleted, erasure.purged, erasure.done_at as "doneAt", erasure.restored_at as "restoredAt",
         progress.cache_entries as "cacheEntries",
         progress.open_calls + erasure.discarded as queued, progress.processes, progress.drained
    from erasures erasure
   cross join lateral (
     select coalesce(sum(cache_entries), 0)::integer as cache_entries, coalesce(sum(open_calls), 0)::integer as open_calls,
            count(*)::integer as processes, count(drained_at)::integer as drained
       from erasure_processes where erasure_id = erasure.id
   ) progress`;
