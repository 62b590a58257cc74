/**
 * The activities of the workflow `subjectErasure`. They wait until every live process has applied the tombstone and
 * drained its journals. Then they delete the subject's workflow runs, and verify that no data is left. Each step can
 * run twice.
 */
import type { ErasureStatus, Progress } from '../../../workflows/contract.ts';
import type { Database, Queries } from '../../db/database.ts';
import { enqueue } from '../../db/outbox.ts';
import { toErasureEntry } from './erase.ts';
import { bySubject, bySubjectSha256, type SubjectTable, subjectTables } from './subject-tables.ts';
import type { Tombstone } from './tombstones.ts';

export interface ErasureStepsOptions {
  readonly database: Database;
  /** Returns the ids of processes whose last heartbeat is less than a minute old. */
  readonly listLive: () => Promise<readonly string[]>;
  /** Deletes all runs of a workflow id from Temporal. Before that, it calls `recordCount` with the number of runs. */
  readonly deleteRuns: (workflowId: string, recordCount: (count: number) => Promise<void>) => Promise<void>;
}

export type ErasureSteps = ReturnType<typeof createErasureSteps>;

/**
 * We check this often whether all processes have finished. If a process doesn't respond, it counts as dead after a
 * minute, so we never poll forever.
 */
const pollIntervalMs = 2_000;
const runsPerStep = 200;
const maxShownProcesses = 10;

export function createErasureSteps({ database, listLive, deleteRuns }: ErasureStepsOptions) {
  return {
    async checkProcesses(erasureId: string): Promise<ErasureStatus> {
      const [row] = await database.query<{ state: string }>(
        `update erasures set state = case state when 'queued' then 'waiting' else state end where id = $1::uuid returning state`,
        [erasureId],
      );
      if (!row) return { kind: 'gone' };
      if (row.state === 'done') return { kind: 'done' };
      const live = await listLive();
      const drained = await database.query<{ process: string }>(
        `select process from erasure_processes where erasure_id = $1::uuid and drained_at is not null`,
        [erasureId],
      );
      const ready = new Set(drained.map(({ process }) => process));
      const missing = live.filter((process) => !ready.has(process));
      if (missing.length === 0) return { kind: 'clear' };
      const counts = { total: live.length, ready: live.length - missing.length };
      return { kind: 'wait', waitMs: pollIntervalMs, ...counts, missing: missing.slice(0, maxShownProcesses) };
    },

    /**
     * Deletes up to `runsPerStep` workflow ids, which takes about a minute. Returns `more` if you have to call it
     * again.
     */
    async purgeRuns(erasureId: string, signal: AbortSignal): Promise<Progress> {
      const rows = await database.query<{ workflowId: string }>(
        `select workflow_id as "workflowId" from erasure_runs where erasure_id = $1::uuid order by workflow_id limit ${runsPerStep}`,
        [erasureId],
      );
      for (const { workflowId } of rows) {
        signal.throwIfAborted();
        await deleteRuns(workflowId, async (count) => {
          // After a crash, a retry finds fewer runs because some are already deleted, so keep the higher number.
          await database.query(
            `update erasure_runs set runs = greatest(runs, $3::bigint) where erasure_id = $1::uuid and workflow_id = $2::text`,
            [erasureId, workflowId, count],
          );
        });
        await database.query(
          `with deleted as (delete from erasure_runs where erasure_id = $1::uuid and workflow_id = $2::text returning runs)
           update erasures set purged = purged + deleted.runs from deleted where id = $1::uuid`,
          [erasureId, workflowId],
        );
      }
      return { kind: rows.length === runsPerStep ? 'more' : 'done' };
    },

    /** Completes the erasure. Throws if we still find data of the subject, unless an import has restored some. */
    async finish(erasureId: string): Promise<void> {
      const residue = await findResidue(database, erasureId);
      if (residue.length > 0) throw new Error(`these tables still contain data of the erased subject: ${residue.join(', ')}`);
      await database.query(`update erasures set state = 'done', done_at = now() where id = $1::uuid and state <> 'done'`, [erasureId]);
    },
  };
}

/** Enqueues unfinished erasures again in case Temporal has lost its state. */
export async function reenqueueErasures(database: Database): Promise<void> {
  const rows = await database.query<{ id: string; projectId: string }>(
    `select id, project_id as "projectId" from erasures where state <> 'done' order by id`,
  );
  await database.transaction((tx) => enqueue(tx, rows.map(toErasureEntry)));
}

type ErasedSubject = Pick<Tombstone, 'id' | 'projectId' | 'sha256'>;

/**
 * Returns the names of tables that still have rows of the subject from before the tombstone. We skip this check if an
 * import has restored data of the subject.
 */
async function findResidue(queries: Queries, erasureId: string): Promise<string[]> {
  const [erasure] = await queries.query<ErasedSubject>(
    `select id, project_id as "projectId", subject_sha256 as sha256 from erasures where id = $1::uuid and restored_at is null`,
    [erasureId],
  );
  if (!erasure) return [];
  const residue: string[] = [];
  for (const table of subjectTables) if (await hasResidue(queries, table, erasure)) residue.push(table.table);
  return residue;
}

async function hasResidue(queries: Queries, table: SubjectTable, erasure: ErasedSubject): Promise<boolean> {
  const { since, where } = table;
  if (since === undefined) return false;
  const isByHash = table.bySha256 || table.oneRowPerSubject;
  const subject = isByHash ? erasure.sha256 : await findSubject(queries, table.table, erasure);
  if (subject === null) return false;
  const rows = await queries.query(
    `select 1 from ${table.table}
      where ${where(isByHash ? bySubjectSha256 : bySubject)} and ${since} <= (select erased_at from erasures where id = $3::uuid)
      limit 1`,
    [erasure.projectId, subject, erasure.id],
  );
  return rows.length > 0;
}

const subjectsPerStatement = 5_000;

/**
 * Returns the subject with this hash, or null if the table doesn't contain it. The query jumps from one subject to the
 * next in the index on (project_id, subject), so it doesn't have to read every row.
 */
async function findSubject(queries: Queries, table: string, { projectId, sha256 }: ErasedSubject): Promise<string | null> {
  const next = (after: string): string =>
    `select subject from ${table} where project_id = $1::uuid and subject > ${after} order by subject limit 1`;
  for (let after = ''; ; ) {
    const [page] = await queries.query<{ erased: string | null; last: string | null; count: number }>(
      `with recursive subjects as (
         select subject, 1 as number from (${next('$3::text')}) first
         union all
         select following.subject, number + 1 from subjects cross join lateral (${next('subjects.subject')}) following
          where number < ${subjectsPerStatement}
       )
       select max(subject) filter (where sha256(convert_to(subject, 'UTF8')) = $2::bytea) as erased, max(subject) as last,
              count(*)::integer as count
         from subjects`,
      [projectId, sha256, after],
    );
    if (!page || page.erased !== null) return page?.erased ?? null;
    if (page.last === null || page.count < subjectsPerStatement) return null;
    after = page.last;
  }
}
