/**
 * Keeps the rollups small and complete, in the background. This merges the increments that transactions have appended
 * to `usage_increments`, and adds calls from before the rollups existed, latest first. Neither changes any sums, only
 * where a call is counted (migration 0033). It also builds the hourly aggregates.
 *
 * Every process runs this, but only the one that gets the lock does any work. Each slice is its own transaction, so
 * interrupted work can continue.
 */
import { createBackgroundLoop, type NextRun } from '../../core/background-loop.ts';
import type { Database } from '../../db/database.ts';
import { tryLockGlobal } from '../../db/locks.ts';
import type { Logger } from '../../observability/logger.ts';
import { buildAggregates } from '../hourly-aggregates/build.ts';

const intervalMs = 30_000;
/**
 * How many increments we merge per transaction. This takes half a second, during which erasures have to wait. The
 * embedded database also blocks the event loop.
 */
const maxIncrements = { server: 5_000, embedded: 500 };
const maxFilledCalls = { server: 20_000, embedded: 250 };

/**
 * Don't merge the increments of the current minute, because we read the usage per minute from them. This uses the
 * database's clock. The margin is for processes whose clocks differ.
 */
const selectMergeable = `select ctid from usage_increments where start < now() - interval '3 minutes' order by start limit $1::integer`;

/**
 * Merges increments and fills in missing rollups. Resolves with true if there's nothing left to do, or if another
 * process is working on it.
 */
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
  // Don't wait for the lock. Transactions that change calls need it too, and would have to queue behind this process.
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
      // Pause for as long as the work took, so that it uses at most half of one database core.
      const done = [await maintainRollups(database), await buildAggregates(database)];
      return done.every(Boolean) ? 'idle' : performance.now() - startedAt;
    },
    intervalMs,
    onFirstFailure: (err) => logger.warn({ err }, 'failed to merge usage; retrying'),
  });
}
