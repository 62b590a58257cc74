/**
 * Keeps the rollups small and complete in the background. It merges the increments that transactions have appended to
 * `usage_increments`, and adds the calls that were stored before the rollups existed, latest first. Both only change
 * where a call is counted, and never the sums (migration 0033). It also builds the hourly aggregates.
 *
 * Every process runs this, but only the one that gets the lock does any work. Each slice is a transaction of its own,
 * so interrupted work continues where it stopped.
 */
import { createBackgroundLoop, type NextRun } from '../../core/background-loop.ts';
import type { Database } from '../../db/database.ts';
import { tryLockGlobal } from '../../db/locks.ts';
import type { Logger } from '../../observability/logger.ts';
import { buildAggregates } from '../hourly-aggregates/build.ts';

const intervalMs = 30_000;
/**
 * The number of increments that we merge in one transaction, which takes half a second. Erasures have to wait for it,
 * and the embedded database blocks the event loop meanwhile.
 */
const maxIncrements = { server: 5_000, embedded: 500 };
const maxFilledCalls = { server: 20_000, embedded: 250 };

/**
 * We keep the increments of the current minute, because usage per minute is read from them. This compares with the
 * database's clock, and the margin allows for processes whose clocks differ.
 */
const selectMergeable = `select ctid from usage_increments where start < now() - interval '3 minutes' order by start limit $1::integer`;

/** Resolves with true if everything has been merged and filled in, or if another process is working on it. */
export async function maintainRollups(database: Database): Promise<boolean> {
  const { kind } = database;
  const merged = await database.transaction(async (tx) => {
    if (!(await tryLockGlobal(tx, 'usage'))) return null;
    const [row] = await tx.query<{ merged: number }>(`select merge_usage_increments(array(${selectMergeable})) as merged`, [
      maxIncrements[kind],
    ]);
    return row?.merged ?? 0;
  });
  if (merged === null) return true;
  if (merged === maxIncrements[kind]) return false;
  const [unfilled] = await database.query(
    `select 1 from usage_rollup_fill where filled_from <> '00000000-0000-0000-0000-000000000000'::uuid`,
  );
  if (!unfilled) return true;
  // Only try to get the lock. Transactions that change calls need it too, and would have to queue behind waiting
  // processes.
  return database.transaction(async (tx) => {
    if (!(await tryLockGlobal(tx, 'usageFill'))) return true;
    await tx.query('select fill_usage_rollups($1::integer)', [maxFilledCalls[kind]]);
    return false;
  });
}

export function createRollupUpkeep({ database, logger }: { readonly database: Database; readonly logger: Logger }) {
  return createBackgroundLoop({
    async run(): Promise<NextRun> {
      const startedAt = performance.now();
      // Pause for as long as the work took, so that it takes at most half of one database core.
      const done = [await maintainRollups(database), await buildAggregates(database)];
      return done.every(Boolean) ? 'idle' : performance.now() - startedAt;
    },
    intervalMs,
    onFirstFailure: (err) => logger.warn({ err }, 'merging usage failed; retrying'),
  });
}
