/**
 * Starts normal learning batches. A batch starts once enough messages of learnable conversations are waiting, or the
 * oldest of them has waited long enough. Batches that callers ask for are in `remember.ts`.
 *
 * The transaction that writes a batch's ranges also advances `batched_messages`, so that each message is in exactly one
 * normal batch. If the messages don't fit into one model call, the rest waits for the next batch.
 */
import type { LearningCheckResult } from '../../../workflows/contract.ts';
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockLearning } from '../../db/locks.ts';
import { batchSize } from '../../db/row-batches.ts';
import { readProjectMemorySettings } from '../records/settings.ts';
import { ensureBatchesStarted } from '../triggers/learning-triggers.ts';
import { advanceBatchCursor, insertBatch, readSizes, type WaitingConversation } from './insert-batch.ts';
import { planGroups } from './plan-groups.ts';
import { isFailingSql } from './replay.ts';

/**
 * If a project has this many failing batches, we don't start another one until there are fewer, because each of them
 * makes paid calls every day. Meanwhile, messages have to wait.
 */
export const maxFailingBatches = 3;

export function createBatchStarter({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  return {
    /** Starts a normal batch if one is due and no other batch is running. */
    checkLearning: (projectId: string) =>
      database.transaction(async (tx): Promise<LearningCheckResult> => {
        const [project] = await tx.query(`select 1 from projects where id = $1::uuid`, [projectId]);
        if (!project) return { kind: 'gone' };
        // Without this lock, concurrent checks could start two batches.
        await lockLearning(tx, projectId);
        const settings = await readProjectMemorySettings(tx, projectId);
        const ended = await countBatches(tx, projectId);
        const running = settings.enabled ? await restartIdleBatches(tx, projectId) : null;
        if (running !== null) return { kind: 'running', batch: running, ...ended };
        const { messages, oldestMs } = await countWaiting(tx, projectId);
        const facts = { memoryOff: !settings.enabled, messages, batchOf: settings.batch_of, ...ended };
        if (!settings.enabled || messages === 0) return { kind: 'idle', ...facts };
        const waitMs = settings.at_least_every_minutes * 60_000 - oldestMs;
        if (messages < settings.batch_of && waitMs > 0) return { kind: 'wait', waitMs, ...facts };
        return { kind: 'running', batch: await startNormalBatch(tx, projectId), ...ended };
      }),
  };

  /**
   * Returns the id of the normal batch that the next one has to wait for, or null if the next one can start.
   *
   * We also enqueue running batches again unless they're waiting for a retry. Somebody may have terminated the run of
   * such a batch in Temporal, and then the batch would block the project forever. If the run still exists, this has no
   * effect.
   */
  async function restartIdleBatches(tx: Queries, projectId: string): Promise<string | null> {
    const running = await tx.query<{ id: string; kind: 'normal' | 'remember' | 'page'; waits: boolean; failing: boolean }>(
      `select batch.id, batch.kind, ${isFailingSql} as failing,
              exists (select 1 from memory_batch_groups part
                       where part.batch_id = batch.id and part.state in ('waiting', 'learned') and part.next_try_at > $2::timestamptz) as waits
         from memory_batches batch where batch.project_id = $1::uuid and batch.state = 'running'`,
      [projectId, new Date(clock.now())],
    );
    const idle = running.filter(({ waits }) => !waits).map(({ id }) => ({ id, projectId }));
    await ensureBatchesStarted(tx, idle);
    const normal = running.filter(({ kind }) => kind === 'normal');
    const failing = normal.filter((batch) => batch.failing);
    return (failing.length < maxFailingBatches ? normal.find((batch) => !batch.failing) : normal[0])?.id ?? null;
  }

  async function startNormalBatch(tx: Queries, projectId: string): Promise<string> {
    const waiting = await tx.query<WaitingConversation>(
      `select id, subject, batched_messages as "from" from conversations
        where project_id = $1::uuid and ${isWaitingSql}
        order by id
        limit $2::integer
          for update`,
      [projectId, batchSize],
    );
    const { groups, ends } = planGroups(await readSizes(tx, waiting), { allowMultiple: false });
    await advanceBatchCursor(tx, ends);
    return insertBatch(tx, { id: newId(clock.now()), projectId, kind: 'normal', conversationId: null, focus: null, groups });
  }
}

/** SQL that's true for conversations with messages that haven't been added to a batch yet. */
const isWaitingSql = `state = 'read' and learnable and batched_messages < messages`;

interface BatchCounts {
  readonly failed: number;
  readonly failing: number;
  readonly stopped: number;
  readonly blocked: number;
}

/** Counts the batches that can't make progress until an operator replays them or changes a model or a setting. */
async function countBatches(tx: Queries, projectId: string): Promise<BatchCounts> {
  const [row] = await tx.query<BatchCounts>(
    `select count(*) filter (where state = 'failed')::integer as failed, count(*) filter (where state = 'stopped')::integer as stopped,
            count(*) filter (where ${isFailingSql})::integer as failing,
            count(*) filter (where state = 'running' and exists (
              select 1 from memory_batch_groups part
               where part.batch_id = batch.id and part.next_try_at is not null and part.error in ('no_route', 'memory_off')
            ))::integer as blocked
       from memory_batches batch where project_id = $1::uuid and state <> 'done'`,
    [projectId],
  );
  return row ?? { failed: 0, failing: 0, stopped: 0, blocked: 0 };
}

/**
 * Counts the messages that are waiting to be learned from, and returns the age of the oldest. The settings `batch_of`
 * and `at_least_every_minutes` are thresholds for these two numbers.
 */
export async function countWaiting(tx: Queries, projectId: string): Promise<{ messages: number; oldestMs: number }> {
  const [row] = await tx.query<{ messages: number; oldestMs: number | null }>(
    `select coalesce(sum(messages - batched_messages), 0)::integer as messages,
            (extract(epoch from now() - min(oldest.created_at)) * 1000)::float8 as "oldestMs"
       from conversations conversation
      cross join lateral (
        select created_at from conversation_parts where conversation_id = conversation.id and position = conversation.batched_messages limit 1
      ) oldest
      where conversation.project_id = $1::uuid and ${isWaitingSql}`,
    [projectId],
  );
  return { messages: row?.messages ?? 0, oldestMs: row?.oldestMs ?? 0 };
}
