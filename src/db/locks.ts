/**
 * Advisory locks that are held until the end of a transaction. During a rolling deployment, processes with different
 * versions exclude each other with these keys, so never change the text, seed or number of a key.
 *
 * To avoid deadlocks, acquire the locks in this order: global → project → counter creation → counters → conversations
 * → memories → other rows (`learning` directly before its rows). If you need the locks of several projects, acquire
 * them in the order of the project ids. There are three exceptions:
 *
 * - We write call rows before any of these locks except for the project's. This is safe because nobody who holds these
 *   locks waits for call rows.
 * - An erasure acquires `usage` last (migration 0033), because no other holder of `usage` waits for a lock.
 * - A transaction that holds the conversations lock may still acquire counters, but without waiting (`tryApplyCalls`).
 */
import { errorCode } from '../core/error-messages.ts';
import type { Queries } from './database.ts';

type LockMode = 'shared' | 'exclusive';

/**
 * Keys of locks that span all projects. The numbers are arbitrary. Other programs in the same database are unlikely to
 * use them.
 */
const globalKeys = { migrate: 7_263_001, prices: 7_263_002, import: 7_263_003, reprice: 7_263_004, usage: 7_263_005, usageFill: 7_263_006 };

export type GlobalLock = keyof typeof globalKeys;

/**
 * Take the shared lock to store data of a project. Take the exclusive lock to erase a subject, so that later writers
 * see the tombstone.
 */
export function lockProject(tx: Queries, projectIds: string | readonly string[], mode: LockMode): Promise<void> {
  return lockEach(tx, projectIds, 'project_id', 0, mode);
}

/**
 * Take the exclusive lock to create a ceiling counter, which starts at the sum of the stored calls. Take the shared
 * lock to count calls or adjust costs.
 */
export function lockCounterCreation(tx: Queries, projectIds: string | readonly string[], mode: LockMode): Promise<void> {
  return lockEach(tx, projectIds, 'project_id', 1, mode);
}

/** Tries to take the shared lock. Returns false immediately if it isn't available for all of the projects. */
export async function tryLockCounterCreation(tx: Queries, projectIds: readonly string[]): Promise<boolean> {
  const [row] = await tx.query<{ acquired: boolean }>(
    `select bool_and(pg_try_advisory_xact_lock_shared(hashtextextended(project_id, 1))) as acquired from unnest($1::text[]) as project_id`,
    [projectIds],
  );
  return row?.acquired === true;
}

/** Serializes changes to the conversations and stored messages of projects. */
export function lockConversations(tx: Queries, projectIds: string | readonly string[]): Promise<void> {
  return lockEach(tx, projectIds, `'conversations ' || project_id`, 0, 'exclusive');
}

/** Serializes the checks that can start a learning batch for the project. */
export function lockLearning(tx: Queries, projectId: string): Promise<void> {
  return lockEach(tx, projectId, `'learning ' || project_id`, 0, 'exclusive');
}

/**
 * Serializes changes to a project's live memories. Otherwise two batches could learn the same statement at the same
 * time, and a fact wouldn't expire together with its last memory.
 */
export function lockMemories(tx: Queries, projectId: string): Promise<void> {
  return lockEach(tx, projectId, `'learned ' || project_id`, 0, 'exclusive');
}

export async function lockGlobal(tx: Queries, lock: GlobalLock): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1::bigint)', [globalKeys[lock]]);
}

/** Tries to take the lock. Returns false immediately if another transaction holds it. */
export async function tryLockGlobal(tx: Queries, lock: GlobalLock): Promise<boolean> {
  const [row] = await tx.query<{ acquired: boolean }>('select pg_try_advisory_xact_lock($1::bigint) as acquired', [globalKeys[lock]]);
  return row?.acquired === true;
}

/** Returns true if a statement failed because a lock wasn't available within the `lock_timeout`. */
export function isLockTimeout(error: unknown): boolean {
  return errorCode(error) === '55P03';
}

/**
 * Acquires the locks in the order of the project ids. PostgreSQL only evaluates the lock function after it has sorted
 * the rows.
 */
async function lockEach(tx: Queries, projectIds: string | readonly string[], key: string, seed: 0 | 1, mode: LockMode): Promise<void> {
  const lock = mode === 'shared' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock';
  await tx.query(
    `select ${lock}(hashtextextended(${key}, ${seed}))
       from unnest($1::text[]) with ordinality as project (project_id, position)
      order by position`,
    [typeof projectIds === 'string' ? [projectIds] : projectIds.toSorted()],
  );
}
