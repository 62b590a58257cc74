/**
 * Keeps the rollups small and complete in the background: merges what transactions have appended to `usage_increments`, and adds the calls of
 * before the rollups existed, the latest first. Both change where a call is counted, never the sums (migration 0033). It also builds the cells.
 *
 * Every process runs this; the one that gets the lock works. A slice is a transaction, so that work that was interrupted continues there.
 */
import { createBackgroundLoop, type NextRun } from '../../core/background-loop.ts';
import type { Database } from '../../db/database.ts';
import { tryLockGlobal } from '../../db/locks.ts';
import type { Logger } from '../../observability/logger.ts';
import { buildCells } from '../cells/build.ts';

const intervalMs = 30_000;
/** Merged in one transaction, for which erasures wait: half a second. The embedded database blocks the event loop meanwhile. */
const maxIncrements = { server: 5_000, embedded: 500 };
const maxFilledCalls = { server: 20_000, embedded: 250 };

/** Increments of the current minute stay: usage per minute is read from them. By the database's clock, with a margin for those of processes. */
const selectMergeable = `select ctid from usage_increments where start < now() - interval '3 minutes' order by start limit $1::integer`;

/** Resolves with true when everything is merged and filled in, or another process works on it. */
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
  // Tried: waiting processes would be ahead of transactions that change calls, which need the lock too.
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
      // Idle for as long as it worked, so that it takes at most half of a core of the database.
      const done = [await maintainRollups(database), await buildCells(database)];
      return done.every(Boolean) ? 'idle' : performance.now() - startedAt;
    },
    intervalMs,
    onFirstFailure: (err) => logger.warn({ err }, 'merging usage failed; retrying'),
  });
}
