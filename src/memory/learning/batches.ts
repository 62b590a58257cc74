/** Lets operators list, inspect, replay and stop learning batches. Operators only see the hashes of subjects. */
import { type LearnedCounts, learnedCounts } from '../../../workflows/contract.ts';
import { gatewayError } from '../../core/errors.ts';
import { hashSubjectHex } from '../../core/subject.ts';
import type { Database, Queries } from '../../db/database.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { type BatchKey, batchWorkflowId, signalBatch, triggerLearning } from '../triggers/learning-triggers.ts';
import { type EndedState, isFailingSql, replayBatch, replayProject } from './replay.ts';

/**
 * The states that need an explanation are
 *
 * - `waiting`: a group needs a route, memory has to be turned on, or the page rebuild hasn't started yet
 * - `retrying`: an attempt failed, and the next one starts at `next_try_at`
 * - `failing`: like `retrying`, but after several unusable responses and with longer delays
 * - `failed`: the batch's Temporal run failed, or an older version gave up the batch
 * - `stopped`: an operator ended the run in Temporal, or gave up the batch
 */
export const batchStates = ['running', 'waiting', 'retrying', 'failing', 'done', 'failed', 'stopped'] as const;
export type BatchState = (typeof batchStates)[number];

export interface BatchProgress extends LearnedCounts {
  readonly messages: number;
  readonly attempts: number;
  readonly nextTryAt: Date | null;
  readonly error: string | null;
  readonly errorMessage: string | null;
  /** Known cost of the batch's calls, in nano-dollars. */
  readonly costNanos: number;
}

export interface Batch extends BatchProgress {
  readonly id: string;
  readonly project: string;
  readonly kind: 'normal' | 'remember' | 'page';
  readonly state: BatchState;
  readonly conversationId: string | null;
  readonly workflowId: string;
  /** URL of the latest workflow run in Temporal's web UI. Null if the address of the UI is unknown. */
  readonly runUrl: string | null;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
}

export interface BatchGroup extends BatchProgress {
  readonly position: number;
  readonly subjectSha256: string | null;
  readonly state: string;
}

export interface BatchPage {
  readonly state: BatchState | null;
  readonly before: string | null;
  readonly limit: number;
}

export interface BatchWithGroups extends Batch {
  readonly groups: readonly BatchGroup[];
}

/** Only these states are stored as they are. The table contains `running` for all others. */
const isStored = (state: BatchState): boolean => state === 'done' || state === 'failed' || state === 'stopped';

const stoppedByOperator = { error: 'stopped_by_operator', errorMessage: 'stopped by an operator' } as const;
const runFailed = { error: 'run_failed', errorMessage: 'its Temporal run failed' } as const;

const nextTrySql = `case when batch.state = 'running' then part.next_try_at end`;

const costSql = `(select coalesce(sum(call.cost_nanos), 0)::float8 from calls call where call.id = any(part.call_ids))`;

export type Batches = ReturnType<typeof createBatches>;

export interface BatchesOptions {
  readonly database: Database;
  /** URL of the workflow list in Temporal's web UI, or null if the address of the UI is unknown. */
  readonly uiUrl: () => Promise<string | null>;
}

/** All functions take null as `projectId` to include every project. */
export function createBatches({ database, uiUrl }: BatchesOptions) {
  const scopedTo = (projectId: string | null) => (projectId === null ? database : databaseOf(database, projectId));

  /** Throws `not_found`. */
  const findWithGroups = async (projectId: string | null, id: string): Promise<BatchWithGroups> => {
    const [batch] = await findBatches(projectId, { id });
    if (!batch) throw gatewayError('not_found', { message: 'no such batch' });
    const groups = await database.query<BatchProgress & { position: number; subject: string | null; state: string }>(
      `select part.position, part.subject, part.state, part.messages, part.attempts, ${nextTrySql} as "nextTryAt", part.error,
              part.error_message as "errorMessage", part.written, part.repeated, part.dropped, part.merged, part.facts,
              ${costSql} as "costNanos"
         from memory_batch_groups part join memory_batches batch on batch.id = part.batch_id
        where part.batch_id = $1::uuid order by part.position`,
      [id],
    );
    return {
      ...batch,
      groups: groups.map(({ subject, ...group }) => ({ ...group, subjectSha256: subject === null ? null : hashSubjectHex(subject) })),
    };
  };

  return {
    list: (projectId: string | null, state: BatchState | null) => findBatches(projectId, { state }),
    listPage: (projectId: string, page: BatchPage) => findBatches(projectId, page),
    /**
     * Counts the project's running, failing, failed and stopped batches. Waiting and retrying batches count as running.
     */
    count: (projectId: string) => countOpenBatches(database, projectId),
    show: findWithGroups,
    /**
     * Retries groups right away if they have failed or are waiting. Groups that are finished don't change. Throws
     * `not_found`.
     */
    async replay(projectId: string | null, id: string): Promise<BatchWithGroups> {
      await scopedTo(projectId).transaction(async (tx) => {
        const [batch] = await tx.query<BatchKey & { state: string }>(
          `select id, project_id as "projectId", state from memory_batches
            where id = $1::uuid and ($2::uuid is null or project_id = $2::uuid) for update`,
          [id, projectId],
        );
        if (!batch) throw gatewayError('not_found', { message: 'no such batch' });
        if (batch.state !== 'done') await replayBatch(tx, batch);
      });
      return findWithGroups(projectId, id);
    },
    /**
     * Gives up a batch that has failed or is waiting for its next attempt. It stays `stopped` until somebody replays
     * it. Throws `not_found`. Throws `conflict` if the batch is in any other state.
     */
    async stop(projectId: string | null, id: string): Promise<BatchWithGroups> {
      await scopedTo(projectId).transaction(async (tx) => {
        // If the batch is running, clear the id of the run that closed it earlier (before a replay). Otherwise
        // `reopenAfterReset` would see that the current run has a different id, assume that an operator has reset it,
        // and reopen the batch.
        const [stopped] = await tx.query<BatchKey & { hasRun: boolean }>(
          `update memory_batches batch
              set state = 'stopped', run_id = case state when 'running' then null else run_id end, finished_at = now()
             from (select id, state = 'running' as "hasRun" from memory_batches
                    where id = $1::uuid and ($2::uuid is null or project_id = $2::uuid) for update) before
            where batch.id = before.id
              and (state = 'failed'
                   or ${isFailingSql}
                   or state = 'running' and not exists (
                        select 1 from memory_batch_groups part
                         where part.batch_id = batch.id and part.state in ('waiting', 'learned') and part.next_try_at is null))
           returning batch.id, project_id as "projectId", "hasRun"`,
          [id, projectId],
        );
        if (!stopped?.hasRun) return;
        await signalBatch(tx, stopped);
        await triggerLearning(tx, stopped.projectId);
      });
      const batch = await findWithGroups(projectId, id);
      if (batch.state !== 'stopped')
        throw gatewayError('conflict', { message: `only failed and waiting batches can be stopped, but this one is ${batch.state}` });
      return batch;
    },
    replayAll: (projectId: string, state: EndedState) => replayProject(database, projectId, state),
  };

  async function findBatches(
    projectId: string | null,
    { id, state = null, before = null, limit = 1_000 }: Partial<BatchPage> & { readonly id?: string },
  ): Promise<Batch[]> {
    const rows = await database.query<Omit<Batch, 'workflowId' | 'runUrl'> & { projectId: string; isPending: boolean }>(
      `select * from (
         select batch.id, batch.project_id as "projectId", project.slug as project, batch.kind, batch.conversation_id as "conversationId", batch.created_at as "createdAt",
                batch.finished_at as "finishedAt", parts.*,
                case when batch.state <> 'running' then batch.state
                     when parts.blocked then 'waiting'
                     when ${isFailingSql} then 'failing'
                     when parts."nextTryAt" is not null and parts.attempts = 0 and parts.error is null then 'waiting'
                     when parts."nextTryAt" is not null then 'retrying'
                     else 'running' end as state
           from memory_batches batch
           join projects project on project.id = batch.project_id
           cross join lateral (
             select coalesce(sum(part.messages), 0)::integer as messages, coalesce(sum(part.attempts), 0)::integer as attempts,
                    coalesce(bool_or(part.state in ('waiting', 'learned')), false) as "isPending",
                    min(${nextTrySql}) as "nextTryAt", coalesce(bool_or(part.next_try_at is not null and part.error in ('no_route', 'memory_off')), false) as blocked,
                    (array_agg(part.error order by part.position) filter (where part.error is not null))[1] as error,
                    (array_agg(part.error_message order by part.position) filter (where part.error is not null))[1] as "errorMessage",
                    ${learnedCounts.map((name) => `coalesce(sum(part.${name}), 0)::integer as ${name}`).join(', ')},
                    coalesce(sum(${costSql}), 0)::float8 as "costNanos"
               from memory_batch_groups part where part.batch_id = batch.id) parts
          where ($1::uuid is null or batch.project_id = $1::uuid) and ($2::uuid is null or batch.id = $2::uuid)
            and ($4::text is null or batch.state = $4::text) and ($5::uuid is null or batch.id < $5::uuid)) batches
        where $3::text is null or state = $3::text
        order by id desc
        limit $6::integer`,
      [projectId, id ?? null, state, state === null || isStored(state) ? state : 'running', before, limit],
    );
    const runsUrl = await uiUrl();
    return rows.map(({ projectId, isPending, ...row }) => {
      const workflowId = batchWorkflowId({ id: row.id, projectId });
      const runUrl = runsUrl === null ? null : `${runsUrl}/${encodeURIComponent(workflowId)}`;
      // If a run gives up on a batch, it leaves no group pending and each failed group has its own error. So if a group
      // is still pending, the run itself must have failed.
      const end = row.state === 'stopped' ? stoppedByOperator : row.state === 'failed' && isPending ? runFailed : {};
      return { ...row, ...end, workflowId, runUrl };
    });
  }
}

/** Counts the batches that aren't done, by state. If `projectId` is null, this covers all projects. */
export async function countOpenBatches(
  queries: Queries,
  projectId: string | null,
): Promise<Readonly<Record<EndedState | 'running' | 'failing', number>>> {
  const rows = await queries.query<{ state: EndedState | 'running' | 'failing'; count: number }>(
    `select case when ${isFailingSql} then 'failing' else state end as state, count(*)::integer as count from memory_batches batch
      where state in ('running', 'failed', 'stopped') and ($1::uuid is null or project_id = $1::uuid) group by 1`,
    [projectId],
  );
  return { running: 0, failing: 0, failed: 0, stopped: 0, ...Object.fromEntries(rows.map(({ state, count }) => [state, count])) };
}
