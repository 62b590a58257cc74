/**
 * Closes idle conversations. When a conversation is closed, it gets a title and a transcript, and memory may learn from
 * it. The workflow `idleConversations` decides when to check, and PostgreSQL decides which conversations are due.
 */
import type { CloseIdleResult } from '../../../workflows/contract.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockConversations } from '../../db/locks.ts';
import { selectRows, toBatches } from '../../db/row-batches.ts';
import { deriveTitle, formatTranscript, readMessagesOf } from '../records/conversation-messages.ts';
import { requestEmbedding } from '../triggers/embedding-runs.ts';
import { triggerLearning } from '../triggers/learning-triggers.ts';

export interface CloseIdleRequest {
  readonly projectId: string;
  readonly run: number;
  readonly idleMs: number;
}

export type CloseIdle = ReturnType<typeof createCloseIdle>;

interface CloseIdleOptions {
  readonly database: Database;
  /**
   * A check that takes longer than this stops and waits a second before it continues, so that other projects get their
   * turn.
   */
  readonly sliceMs?: number;
}

const maxConversations = 100;
const maxMessages = 2_000;
/**
 * Wait for at least this share of the idle time before the next check (but at most a minute), so that a single check
 * can close several conversations.
 */
const gatherShare = 0.1;
const maxGatherMs = 60_000;
const maxCounted = 100_000;

/** Closes the conversations that are idle by the database clock and returns when to check again. Idempotent. */
export function createCloseIdle({ database, sliceMs = 2_000 }: CloseIdleOptions) {
  return async ({ projectId, run, idleMs }: CloseIdleRequest): Promise<CloseIdleResult> => {
    const endAt = performance.now() + sliceMs;
    let closed = 0;
    for (let more = await isCurrent(database, projectId, run); more; ) {
      const count = await database.transaction((tx) => closeBatch(tx, projectId, idleMs));
      closed += count;
      more = count > 0 && performance.now() < endAt;
    }
    return (
      (await waitForNext(projectId, run, idleMs, closed)) ??
      (await finish(projectId, run, closed)) ?? { kind: 'wait', waitMs: 0, read: closed }
    );
  };

  /**
   * Returns when to check again, or null if the run can end because there's no open conversation or a newer run has
   * taken over.
   */
  async function waitForNext(projectId: string, run: number, idleMs: number, closed: number): Promise<CloseIdleResult | null> {
    const [next] = await database.query<{ waiting: number; dueMs: number | null }>(
      `select count(*)::integer as waiting, (extract(epoch from min(last_turn_at) - now()) * 1000 + $2::float8)::float8 as "dueMs"
         from (select last_turn_at from conversations where project_id = $1::uuid and state = 'stored'
                order by last_turn_at limit ${maxCounted}) as open`,
      [projectId, idleMs],
    );
    if (!next || next.dueMs === null) return null;
    // If the clock of a host was ahead, the last turn can be far in the future. Don't wait for that, because
    // conversations that are opened in the meantime are due earlier.
    const dueMs = Math.min(next.dueMs, idleMs);
    const waitMs = dueMs <= 0 ? 0 : Math.max(dueMs, Math.min(maxGatherMs, idleMs * gatherShare));
    const [timer] = await database.query(
      `update idle_timers set due_at = now() + $3::float8 * interval '1 ms'
        where project_id = $1::uuid and run = $2::integer and active returning 1`,
      [projectId, run, waitMs],
    );
    return timer ? { kind: 'wait', waitMs, read: closed, waiting: next.waiting } : null;
  }

  /** Ends the run, or returns null if a conversation was opened in the meantime. */
  function finish(projectId: string, run: number, closed: number): Promise<CloseIdleResult | null> {
    return database.transaction(async (tx) => {
      await lockConversations(tx, projectId);
      if (!(await isCurrent(tx, projectId, run))) return { kind: 'superseded', read: closed };
      const [open] = await tx.query(`select 1 from conversations where project_id = $1::uuid and state = 'stored' limit 1`, [projectId]);
      if (open) return null;
      await tx.query(`update idle_timers set active = false where project_id = $1::uuid`, [projectId]);
      return { kind: 'done', read: closed };
    });
  }
}

async function isCurrent(queries: Queries, projectId: string, run: number): Promise<boolean> {
  const rows = await queries.query(`select 1 from idle_timers where project_id = $1::uuid and run = $2::integer and active`, [
    projectId,
    run,
  ]);
  return rows.length > 0;
}

/**
 * Closes idle conversations and returns how many there were. Conversations that a call or an erasure has locked are
 * skipped, because waiting for the lock could deadlock. The next check will find them.
 */
async function closeBatch(tx: Queries, projectId: string, idleMs: number): Promise<number> {
  const idle = await tx.query<IdleConversation>(
    `select id, messages, learnable from conversations
      where project_id = $1::uuid and state = 'stored' and last_turn_at <= now() - $2::float8 * interval '1 ms'
      order by last_turn_at
      limit ${maxConversations}
        for update skip locked`,
    [projectId, idleMs],
  );
  const [batch = []] = toBatches(idle, ({ messages }) => messages, maxMessages);
  await closeConversations(tx, projectId, batch);
  return batch.length;
}

export interface IdleConversation {
  readonly id: string;
  readonly messages: number;
  readonly learnable: boolean;
}

/** Closes conversations of one project. The caller must have locked their rows. */
export async function closeConversations(tx: Queries, projectId: string, conversations: readonly IdleConversation[]): Promise<void> {
  if (conversations.length === 0) return;
  const messages = await readMessagesOf(tx, conversations);
  const { text, values } = selectRows<IdleConversation>(
    [
      ['id', 'uuid', ({ id }) => id],
      ['title', 'text', ({ id }) => deriveTitle(messages.get(id) ?? [])],
      ['text', 'text', ({ id }) => formatTranscript(messages.get(id) ?? [])],
    ],
    conversations,
  );
  await tx.query(
    `update conversations as existing set state = 'read', read_at = now(), title = new.title, text = new.text
       from (${text}) as new
      where existing.id = new.id`,
    values,
  );
  await requestEmbedding(tx, projectId);
  if (conversations.some(({ learnable }) => learnable)) await triggerLearning(tx, projectId);
}
