/** Month partitions of `calls` and `attempts`, made ahead of need and outside of the transactions that store calls. */
import { minIdAt } from '../core/ids.ts';
import type { Clock } from '../core/time.ts';
import { monthAt } from '../core/time.ts';
import type { Database } from '../db/database.ts';

const tables = ['calls', 'attempts'] as const;

/**
 * SQLSTATEs with which a partition is left out, and the default partition goes on holding its rows: they are there already (23514), somebody
 * else makes it right now (42P07, 23505), or the table is too busy to lock (55P03, 40P01). Tried again the next day.
 */
const toleratedStates = new Set(['23514', '42P07', '23505', '55P03', '40P01']);

/** Makes the partitions of this month and the next, where they are not there yet; throws only what is no reason to leave one out. */
export async function ensurePartitions(database: Database, clock: Clock): Promise<void> {
  const thisMonth = monthAt(clock.now());
  for (const month of [thisMonth, monthAt(thisMonth.end)]) {
    for (const table of tables) await ensurePartition(database, table, month);
  }
}

async function ensurePartition(database: Database, table: (typeof tables)[number], month: ReturnType<typeof monthAt>): Promise<void> {
  const name = `${table}_${month.name.replace('-', '_')}`;
  // Looked up first: the statement below locks the whole table even when it finds nothing to do.
  const [existing] = await database.query<{ exists: boolean }>(`select to_regclass($1::text) is not null as "exists"`, [name]);
  if (existing?.exists) return;
  try {
    await database.transaction(async (tx) => {
      await tx.query(`set local lock_timeout = '2s'`);
      // Identifiers and bounds cannot be parameters here; both are made of digits.
      await tx.query(
        `create table if not exists ${name} partition of ${table} for values from ('${minIdAt(month.start)}') to ('${minIdAt(month.end)}')`,
      );
    });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && typeof error.code === 'string' && toleratedStates.has(error.code))) throw error;
  }
}
