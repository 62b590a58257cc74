/**
 * Advisory locks that are held until the transaction ends. Several processes exclude each other with these keys, even
 * if they run different versions during a rolling deployment, so never change the text, seed or number of a key.
 *
 * To avoid deadlocks, acquire the locks in this order: global → project → conversations → memories → counter creation →
 * rows (`learning` directly before its rows). There are two exceptions. Call rows are written before conversations or
 * counter creation are locked, which is safe because no other holder of these locks waits for those rows. And an
 * erasure acquires `usage` last (migration 0033), whose other holders don't wait for any lock. Locks of several
 * projects are acquired in the order of their ids.
 */
import type { Queries } from './database.ts';

type LockMode = 'shared' | 'exclusive';

/**
 * The keys of locks that span all projects. The numbers are arbitrary, and another program in the same database is
 * unlikely to use them.
 */
const globalKeys = { migrate: 7_263_001, prices: 7_263_002, import: 7_263_003, reprice: 7_263_004, usage: 7_263_005, usageFill: 7_263_006 };

export type GlobalLock = keyof typeof globalKeys;

/**
 * Use the shared lock to store data of a project, and the exclusive one to erase a subject, so that later writers see
 * the tombstone.
 */
export function lockProject(tx: Queries, projectIds: string | readonly string[], mode: LockMode): Promise<void> {
  return lockEach(tx, projectIds, 'project_id', 0, mode);
}

/**
 * Use the exclusive lock to create a ceiling counter, which starts at the sum of the stored calls, and the shared one
 * to count calls or adjust costs.
 */
export function lockCounterCreation(tx: Queries, projectIds: string | readonly string[], mode: LockMode): Promise<void> {
  return lockEach(tx, projectIds, 'project_id', 1, mode);
}

/** Serializes changes to the conversations and stored messages of projects. */
export function lockConversations(tx: Queries, projectIds: string | readonly string[]): Promise<void> {
  return lockEach(tx, projectIds, `'conversations ' || project_id`, 0, 'exclusive');
}

/** Serializes checks that may start a learning batch for the project. */
export function lockLearning(tx: Queries, projectId: string): Promise<void> {
  return lockEach(tx, projectId, `'learning ' || project_id`, 0, 'exclusive');
}

/**
 * Serializes changes to a project's live memories, because two batches may learn the same statement, and a fact expires
 * with its last memory.
 */
export function lockMemories(tx: Queries, projectId: string): Promise<void> {
  return lockEach(tx, projectId, `'learned ' || project_id`, 0, 'exclusive');
}

export async function lockGlobal(tx: Queries, lock: GlobalLock): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1::bigint)', [globalKeys[lock]]);
}

/** Returns false immediately if another transaction holds the lock. */
export async function tryLockGlobal(tx: Queries, lock: GlobalLock): Promise<boolean> {
  const [row] = await tx.query<{ acquired: boolean }>('select pg_try_advisory_xact_lock($1::bigint) as acquired', [globalKeys[lock]]);
  return row?.acquired === true;
}

/** PostgreSQL acquires each lock when its row leaves the sort, so they're acquired in the order of the ids. */
async function lockEach(tx: Queries, projectIds: string | readonly string[], key: string, seed: 0 | 1, mode: LockMode): Promise<void> {
  const lock = mode === 'shared' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock';
  await tx.query(
    `select ${lock}(hashtextextended(${key}, ${seed}))
       from unnest($1::text[]) with ordinality as project (project_id, position)
      order by position`,
    [typeof projectIds === 'string' ? [projectIds] : projectIds.toSorted()],
  );
}
