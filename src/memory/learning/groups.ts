/**
 * Maintains the state of a batch's groups. These rows are our only record of progress. That's why it makes no
 * difference if a worker dies, a workflow is reset, or an activity runs twice.
 *
 * An erasure deletes its subject's groups while it holds the project's exclusive lock. Before we write to a group, we
 * acquire the lock in shared mode and read the group again. If the group is gone, we treat it as settled.
 */
import {
  type BatchFinish,
  type BatchSummary,
  callUnderWay,
  type GroupStepResult,
  type LearnedCounts,
  learnedCounts,
  maxUnusableResponses,
  type PendingGroup,
  type PendingGroups,
} from '../../../workflows/contract.ts';
import { type BackoffPolicy, backoffMs } from '../../core/backoff.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { type Clock, dayMs } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockMemories, lockProject } from '../../db/locks.ts';
import type { Logger } from '../../observability/logger.ts';
import { triggerLearning } from '../triggers/learning-triggers.ts';
import { type BatchRun, reopenAfterReset } from './replay.ts';

export interface GroupKey {
  readonly batchId: string;
  readonly position: number;
}

export interface Group extends GroupKey {
  readonly runId: string;
  readonly projectId: string;
  readonly subject: string | null;
  readonly focus: string | null;
  readonly state: 'waiting' | 'learned' | 'done' | 'failed';
}

/**
 * Why an attempt to process a group failed.
 *
 * - `unusable`: We couldn't use the response, or the request was rejected. If this keeps happening, retries slow down
 *   to one a day, and the next batch no longer waits for this one.
 * - `blocked`: We didn't make an attempt, because the project's settings don't allow it.
 */
export interface GroupFailure {
  readonly kind: 'vendor' | 'unusable' | 'blocked';
  /** Either an error code of the gateway, or `unusable_answer`. */
  readonly code: string;
  readonly message: string;
}

const maxErrorMessageLength = 500;
/** The longest time that a call to the memory model can take, as an SQL interval. */
const maxCall = `interval '6 minutes'`;
/** How often to check whether another run's call to the model has ended. */
const callCheckMs = 10_000;
/**
 * How often to retry groups that the project's settings block. Checking the settings is cheap, and if they change, the
 * batch gets a signal anyway.
 */
const blockedRetryMs = 10 * 60_000;

export interface GroupProgress extends Partial<LearnedCounts> {
  readonly state: 'learned' | 'done';
}

export interface GroupsOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly retry: () => BackoffPolicy;
  readonly logger: Logger;
}

export type Groups = ReturnType<typeof createGroups>;

export function createGroups({ database, clock, retry, logger }: GroupsOptions) {
  return {
    open: (run: BatchRun): Promise<PendingGroups> =>
      database.transaction(async (tx) => {
        await reopenAfterReset(tx, run);
        const groups = await tx.query<PendingGroup & { isPending: boolean }>(
          `select position, attempts, state in ('waiting', 'learned') as "isPending", error as code,
                  case when learned_at is null then 'learnGroup' else 'consolidateGroup' end as step,
                  coalesce(error in ('no_route', 'memory_off'), false) as blocked,
                  greatest(0, coalesce(extract(epoch from next_try_at - $2::timestamptz) * 1000, 0))::float8 as "waitMs"
             from memory_batch_groups where batch_id = $1::uuid order by position`,
          [run.batchId, new Date(clock.now())],
        );
        const [running] = await tx.query(`select 1 from memory_batches where id = $1::uuid and state = 'running'`, [run.batchId]);
        // The batch has been closed, e.g. because an operator stopped it, so this run has nothing left to do.
        if (!running) return { groups: [], total: groups.length };
        return { groups: groups.filter(({ isPending }) => isPending), total: groups.length };
      }),

    /** Returns null if the group has been erased. */
    find: ({ batchId, position, runId }: GroupKey & BatchRun): Promise<Group | null> =>
      database.transaction(async (tx) => {
        await reopenAfterReset(tx, { batchId, runId });
        const [row] = await tx.query<Group>(
          `select batch_id as "batchId", position, project_id as "projectId", subject, focus, state
             from memory_batch_groups where batch_id = $1::uuid and position = $2::integer`,
          [batchId, position],
        );
        return row ? { ...row, runId } : null;
      }),

    /**
     * Records that we're about to call the model. Returns false if we shouldn't, because the group was erased or
     * settled, its batch was closed, or another run is already calling the model for it. If this run has made an
     * earlier call, that one doesn't count, because Temporal has already given up on its activity.
     */
    async startAttempt({ batchId, position, state, runId }: Group, callId: string): Promise<boolean> {
      const updated = await database.query(
        `update memory_batch_groups
            set attempts = attempts + 1, call_ids = call_ids || $3::uuid, next_try_at = null,
                calling_run = $5::text, calling_until = now() + ${maxCall}
          where batch_id = $1::uuid and position = $2::integer and state = $4::text
            and (calling_run is null or calling_run = $5::text or calling_until <= now())
            and exists (select 1 from memory_batches where id = $1::uuid and state = 'running')
         returning 1`,
        [batchId, position, callId, state, runId],
      );
      return updated.length > 0;
    },

    /**
     * Returns how long to wait for another run that's calling the model. Its call ends with `fail` or `settle`, or
     * expires if the worker has died.
     */
    async awaitCall({ batchId, position, state, runId }: Group): Promise<GroupStepResult> {
      const [call] = await database.query<{ attempts: number; remainingMs: number }>(
        `select attempts, (extract(epoch from calling_until - now()) * 1000)::float8 as "remainingMs"
           from memory_batch_groups part
          where batch_id = $1::uuid and position = $2::integer and state = $4::text and calling_run <> $3::text and calling_until > now()
            and exists (select 1 from memory_batches where id = $1::uuid and state = 'running')`,
        [batchId, position, runId, state],
      );
      if (!call) return { kind: 'settled' };
      const waitMs = Math.min(call.remainingMs, callCheckMs);
      return { kind: 'wait', waitMs, attempts: call.attempts, code: callUnderWay, blocked: false };
    },

    async isReplaced({ batchId, position }: Group, callId: string): Promise<boolean> {
      const replaced = await database.query(
        `select 1 from memory_batch_groups
          where batch_id = $1::uuid and position = $2::integer and call_ids[cardinality(call_ids)] <> $3::uuid`,
        [batchId, position, callId],
      );
      return replaced.length > 0;
    },

    /**
     * Records a failed attempt and returns when to try again. `callId` is the call that failed, or null if we didn't
     * make one.
     *
     * By the time the call fails, the group may have been settled or its batch closed. Then we only record that the
     * call has ended, because a replay would otherwise wait for it.
     */
    fail: ({ batchId, position, projectId }: Group, failure: GroupFailure, callId: string | null = null) =>
      database.transaction(async (tx): Promise<GroupStepResult> => {
        const [row] = await tx.query<{ attempts: number; failures: number; unusable: number; project: string }>(
          `select attempts, failures, unusable, (select slug from projects where projects.id = project_id) as project
             from memory_batch_groups
            where batch_id = $1::uuid and position = $2::integer and state in ('waiting', 'learned')
              and exists (select 1 from memory_batches where id = $1::uuid and state = 'running')
              for update`,
          [batchId, position],
        );
        if (!row) {
          await tx.query(
            `update memory_batch_groups set calling_run = null
              where batch_id = $1::uuid and position = $2::integer and call_ids[cardinality(call_ids)] = $3::uuid`,
            [batchId, position, callId],
          );
          return { kind: 'settled' };
        }
        const { kind, code } = failure;
        const failures = row.failures + (kind === 'blocked' ? 0 : 1);
        const unusable = row.unusable + (kind === 'unusable' ? 1 : 0);
        const policy = retry();
        const longestMs = unusable >= maxUnusableResponses ? Math.max(policy.maxMs, dayMs) : policy.maxMs;
        const waitMs = kind === 'blocked' ? blockedRetryMs : backoffMs(failures, { ...policy, maxMs: longestMs });
        await tx.query(
          `update memory_batch_groups
              set failures = $3::integer, unusable = $4::integer, error = $5::text, error_message = $6::text,
                  next_try_at = $7::timestamptz,
                  calling_run = case when call_ids[cardinality(call_ids)] = $8::uuid then null else calling_run end
            where batch_id = $1::uuid and position = $2::integer`,
          [
            batchId,
            position,
            failures,
            unusable,
            code,
            toPostgresText(failure.message, maxErrorMessageLength),
            new Date(clock.now() + waitMs),
            callId,
          ],
        );
        if (kind === 'unusable' && unusable === maxUnusableResponses) {
          logger.error({ batch: batchId, project: row.project, code }, 'learning batch keeps failing; retrying at most once a day');
          // A failing batch doesn't hold up the next one, which may be able to start now.
          await triggerLearning(tx, projectId);
        }
        const wait = { waitMs, attempts: row.attempts, code, blocked: kind === 'blocked' };
        return { kind: 'wait', ...wait, ...(kind === 'unusable' && { unusable }) };
      }),

    /**
     * Runs `commit` and stores the state that it returns in the same transaction. Does nothing if the group is no
     * longer in `state`.
     */
    settle: ({ batchId, position, projectId, state }: Group, commit: (tx: Queries) => Promise<GroupProgress>) =>
      database.transaction(async (tx): Promise<GroupStepResult> => {
        await lockProject(tx, projectId, 'shared');
        await lockMemories(tx, projectId);
        const [row] = await tx.query(
          `select 1 from memory_batch_groups where batch_id = $1::uuid and position = $2::integer and state = $3::text for update`,
          [batchId, position, state],
        );
        if (!row) return { kind: 'settled' }; // erased, or settled by another worker in the meantime
        const progress = await commit(tx);
        await tx.query(
          `update memory_batch_groups
              set state = $3::text, failures = 0, unusable = 0, next_try_at = null, error = null, error_message = null,
                  calling_run = null, learned_at = coalesce(learned_at, $4::timestamptz),
                  ${learnedCounts.map((name, index) => `${name} = ${name} + $${index + 5}::integer`).join(', ')}
            where batch_id = $1::uuid and position = $2::integer`,
          [batchId, position, progress.state, new Date(clock.now()), ...learnedCounts.map((name) => progress[name] ?? 0)],
        );
        return { kind: 'settled', outcome: progress.state, code: null, written: progress.written ?? 0 };
      }),

    finish: (run: BatchRun) =>
      database.transaction(async (tx): Promise<BatchFinish> => {
        const { batchId, runId } = run;
        const [batch] = await tx.query<{ projectId: string; project: string; state: string }>(
          `select project_id as "projectId", (select slug from projects where projects.id = project_id) as project, state
             from memory_batches where id = $1::uuid for update`,
          [batchId],
        );
        if (!batch) return { finished: true, batch: null };
        const isReopened = await reopenAfterReset(tx, run);
        const { pending, ...summary } = await summarize(tx, batchId);
        if (batch.state === 'stopped' && !isReopened && pending > 0) {
          // Remember which run has noticed the stop. If an operator resets this run, the new one can tell by its
          // different id that it has to reopen the batch.
          await tx.query(`update memory_batches set run_id = $2::text where id = $1::uuid`, [batchId, runId]);
          return { finished: true, stopped: true, batch: { ...summary, parked: summary.parked + pending } };
        }
        if (pending > 0) return { finished: false };
        const closed = await tx.query(
          `update memory_batches set state = $2::text, finished_at = $3::timestamptz, run_id = $4::text
            where id = $1::uuid and (state = 'running' or state = 'stopped' and $2::text = 'done') returning 1`,
          [batchId, summary.parked > 0 ? 'failed' : 'done', new Date(clock.now()), runId],
        );
        if (closed.length > 0) await triggerLearning(tx, batch.projectId);
        const { groups, parked, code } = summary;
        if (closed.length > 0 && parked > 0)
          logger.error(
            { batch: batchId, project: batch.project, groups, parked, code },
            'learning batch failed; replay it when the cause is fixed',
          );
        return { finished: true, batch: summary };
      }),
  };
}

async function summarize(tx: Queries, batchId: string): Promise<BatchSummary & { readonly pending: number }> {
  const [row] = await tx.query<BatchSummary & { pending: number }>(
    `select count(*)::integer as groups, count(*) filter (where state in ('waiting', 'learned'))::integer as pending,
            count(*) filter (where state = 'failed')::integer as parked,
            coalesce((array_agg(unusable order by position) filter (where state = 'failed'))[1], 0) as unusable,
            (array_agg(error order by position) filter (where state = 'failed'))[1] as code,
            ${learnedCounts.map((name) => `coalesce(sum(${name}), 0)::integer as ${name}`).join(', ')}
       from memory_batch_groups where batch_id = $1::uuid`,
    [batchId],
  );
  if (!row) throw new Error('expected the query to return a row');
  return row;
}
