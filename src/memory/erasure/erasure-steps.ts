/**
 * What the workflow `subjectErasure` does: waits until every live process keeps to the fence and has nothing older on its disk, deletes
 * the runs that concern the subject, and counts what is left. Each step is harmless when it is done twice.
 */
import type { Database, Queries } from '../../db/database.ts';
import { enqueue } from '../../db/outbox.ts';
import { erasureEntry } from './erase.ts';
import { subjectTables, whereBySha256 } from './subject-tables.ts';

export type ErasureStatus =
  | { readonly kind: 'gone' | 'done' | 'clear' } // clear: all processes are ready
  | { readonly kind: 'wait'; readonly waitMs: number };

export interface ErasureStepsOptions {
  readonly database: Database;
  /** Ids of the processes that were heard of within the last minute. */
  readonly listLive: () => Promise<readonly string[]>;
  /** Deletes the runs of a workflow id from Temporal, once it is noted how many there are. */
  readonly deleteRuns: (workflowId: string, recordCount: (count: number) => Promise<void>) => Promise<void>;
}

export interface ErasureSteps {
  checkProcesses(erasureId: string): Promise<ErasureStatus>;
  /** Some of the runs, for a minute or so. `more`: ask again. */
  purgeRuns(erasureId: string, signal: AbortSignal): Promise<{ readonly kind: 'done' | 'more' }>;
  /** Throws when something of the subject is left. */
  finish(erasureId: string): Promise<void>;
}

/** Processes that do not answer are no longer live after a minute. */
const waitMs = 2_000;
const batchSize = 200;

export function createErasureSteps({ database, listLive, deleteRuns }: ErasureStepsOptions): ErasureSteps {
  return {
    async checkProcesses(erasureId) {
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
      return live.every((process) => ready.has(process)) ? { kind: 'clear' } : { kind: 'wait', waitMs };
    },

    async purgeRuns(erasureId, signal) {
      const rows = await database.query<{ workflowId: string }>(
        `select workflow_id as "workflowId" from erasure_runs where erasure_id = $1::uuid order by workflow_id limit ${batchSize}`,
        [erasureId],
      );
      for (const { workflowId } of rows) {
        signal.throwIfAborted();
        await deleteRuns(workflowId, async (count) => {
          // Who goes on after a crash finds fewer of them.
          await database.query(
            `update erasure_runs set runs = greatest(runs, $3::bigint) where erasure_id = $1::uuid and workflow_id = $2::text`,
            [erasureId, workflowId, count],
          );
        });
        await database.query(
          `with gone as (delete from erasure_runs where erasure_id = $1::uuid and workflow_id = $2::text returning runs)
           update erasures set purged = purged + gone.runs from gone where id = $1::uuid`,
          [erasureId, workflowId],
        );
      }
      return { kind: rows.length === batchSize ? 'more' : 'done' };
    },

    async finish(erasureId) {
      const residue = await findResidue(database, erasureId);
      if (residue.length > 0) throw new Error(`something of the erased subject is left in ${residue.join(', ')}`);
      await database.query(`update erasures set state = 'done', done_at = now() where id = $1::uuid and state <> 'done'`, [erasureId]);
    },
  };
}

/** Temporal lost its state, or came late: starts again what is not done (decisions 8). */
export async function reenqueueErasures(database: Database): Promise<void> {
  const rows = await database.query<{ id: string; projectId: string }>(
    `select id, project_id as "projectId" from erasures where state <> 'done' order by id`,
  );
  await database.transaction((tx) => enqueue(tx, rows.map(erasureEntry)));
}

/** Tables with rows of the subject from before the fence. */
async function findResidue(queries: Queries, erasureId: string): Promise<string[]> {
  const [erasure] = await queries.query<{ projectId: string; sha256: Buffer; erasedAt: Date }>(
    `select project_id as "projectId", subject_sha256 as sha256, erased_at as "erasedAt" from erasures where id = $1::uuid`,
    [erasureId],
  );
  if (!erasure) return [];
  const residue: string[] = [];
  for (const table of subjectTables) {
    if (table.since === undefined) continue;
    const [row] = await queries.query(
      `select 1 from ${table.table} where ${whereBySha256(table)} and ${table.since} <= $3::timestamptz limit 1`,
      [erasure.projectId, erasure.sha256, erasure.erasedAt],
    );
    if (row) residue.push(table.table);
  }
  return residue;
}
