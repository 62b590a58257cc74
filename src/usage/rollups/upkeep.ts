/**
 * Keeps the rollups small and complete, in the background.
 *
 * Transactions append increments to `usage_increments`, which we merge here. We also add calls from before there were
 * rollups, starting with the latest. None of this changes any sums, it only changes where a call is counted (migration
 * 0033). The hourly aggregates are built here too.
 *
 * This runs in every process, but only the one that gets the lock does any work. Each slice is a transaction of its
 * own, so we can stop at any time and go on later.
 */
import { createBackgroundLoop, type NextRun } from '../../core/background-loop.ts';
import type { Database } from '../../db/database.ts';
import { tryLockGlobal } from '../../db/locks.ts';
import type { Logger } from '../../observability/logger.ts';
import { buildAggregates } from '../hourly-aggregates/build.ts';

const intervalMs = 30_000;
/**
 * The number of increments per transaction. Erasures have to wait for the transaction, which takes half a second. The
 * number is lower for the embedded database, which also blocks the event loop.
 */
const maxIncrements = { server: 5_000, embedded: 500 };
const maxFilledCalls = { server: 20_000, embedded: 250 };

/**
 * Don't merge the increments of the current minute (by the database's clock), because we read the usage per minute from
 * them. The other two minutes are a margin for processes whose clocks differ.
 */
const selectMergeable = `select ctid from usage_increments where start < now() - interval '3 minutes' order by start limit $1::integer`;

/** Resolves with true if there's nothing left to do, or if another process is already at work. */
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
  // Don't wait for this lock, because transactions that change calls would have to queue up behind us.
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
      // Pause for as long as we've worked, so that we never use more than half of a database core.
      const done = [await maintainRollups(database), await buildAggregates(database)];
      return done.every(Boolean) ? 'idle' : performance.now() - startedAt;
    },
    intervalMs,
    onFirstFailure: (err) => logger.warn({ err }, 'failed to update usage totals; retrying'),
  });
}
