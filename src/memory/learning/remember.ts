/**
 * Learns from a whole conversation because a caller asked for it. This starts a batch immediately, even if other
 * batches are running.
 *
 * Each batch makes paid calls that aren't charged to the caller's key. So if a batch is already going to do what the
 * caller asks for, we return that one, and we limit how many of these batches a project can have at a time.
 */
import { gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockLearning, lockProject } from '../../db/locks.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';
import { readProjectMemorySettings } from '../records/settings.ts';
import { advanceBatchCursor, insertBatch, readSizes } from './insert-batch.ts';
import { planGroups } from './plan-groups.ts';

/** The maximum number of remember batches of a project that are running, waiting or failing at a time. */
export const maxOpenRememberBatches = 10;
const retryAfterSeconds = 60;

export interface RememberReceipt {
  readonly conversationId: string;
  readonly batchId: string;
  /** The focus that the caller asked for, with credentials masked. */
  readonly focus: string | null;
}

export function createRemember({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  /**
   * Returns the batch that learns from the conversation. Throws `not_found`, `memory_off`, and `budget_unavailable` if
   * too many of the project's batches are open.
   */
  return (projectId: string, conversationId: string, focus: string | null): Promise<RememberReceipt> =>
    databaseOf(database, projectId).transaction(async (tx) => {
      await lockProject(tx, projectId, 'shared');
      // Without this lock, concurrent calls could start the same batch twice, or more batches than we allow. Like the
      // learning check, take it before we lock the conversation's row.
      await lockLearning(tx, projectId);
      // Somebody has explicitly asked us to learn from this conversation, so make it learnable.
      const [conversation] = await tx.query<{ subject: string | null; messages: number }>(
        `update conversations set learnable = true where id = $1::uuid and project_id = $2::uuid returning subject, messages`,
        [conversationId, projectId],
      );
      if (!conversation) throw gatewayError('not_found', { message: 'no such conversation' });
      if (!(await readProjectMemorySettings(tx, projectId)).enabled) throw gatewayError('memory_off');
      const maskedFocus = focus === null ? null : maskCredentials(focus);
      const open = await findOpenBatch(tx, conversationId, maskedFocus);
      const reuse = (batchId: string): RememberReceipt => ({ conversationId, batchId, focus: maskedFocus });
      if (open && open.end >= conversation.messages) return reuse(open.id);
      const sizes = await readSizes(tx, [{ id: conversationId, subject: conversation.subject, from: 0 }]);
      const { groups, ends } = planGroups(sizes, { allowMultiple: true });
      // If the conversation is too long for a batch, a new batch wouldn't get any further than the open one.
      if (open && open.end >= (ends.get(conversationId) ?? 0)) return reuse(open.id);
      await assertBelowLimit(tx, projectId);
      await advanceBatchCursor(tx, ends);
      const batch = { id: newId(clock.now()), projectId, kind: 'remember', conversationId, focus: maskedFocus, groups } as const;
      return reuse(await insertBatch(tx, batch));
    });
}

interface OpenBatch {
  readonly id: string;
  /** The position after the last message that the batch reads. */
  readonly end: number;
}

/**
 * Finds the open batch with this focus that reads the most messages. All groups of a batch have the same focus. A batch
 * that was stopped or has failed isn't open, because nothing happens in it until an operator replays it.
 */
async function findOpenBatch(tx: Queries, conversationId: string, focus: string | null): Promise<OpenBatch | undefined> {
  const [open] = await tx.query<OpenBatch>(
    `select batch.id, coalesce((select max(to_position) from memory_batch_ranges where batch_id = batch.id), 0) as "end"
       from memory_batches batch
      where batch.conversation_id = $1::uuid and batch.kind = 'remember' and batch.state = 'running'
        and not exists (select 1 from memory_batch_groups part where part.batch_id = batch.id and part.focus is distinct from $2::text)
      order by "end" desc, batch.id
      limit 1`,
    [conversationId, focus],
  );
  return open;
}

async function assertBelowLimit(tx: Queries, projectId: string): Promise<void> {
  const [row] = await tx.query<{ open: number }>(
    `select count(*)::integer as open from memory_batches where project_id = $1::uuid and kind = 'remember' and state = 'running'`,
    [projectId],
  );
  if ((row?.open ?? 0) < maxOpenRememberBatches) return;
  const message = `${maxOpenRememberBatches} remember batches of this project are already open; try again when one of them has finished`;
  throw gatewayError('budget_unavailable', { message, retryAfterSeconds });
}
