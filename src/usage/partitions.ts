/** Monthly partitions of `calls` and `attempts`, created in advance and outside the transactions that store calls. */
import { errorCode } from '../core/error-messages.ts';
import { minIdAt } from '../core/ids.ts';
import type { Clock } from '../core/time.ts';
import { monthAt } from '../core/time.ts';
import type { Database } from '../db/database.ts';

const tables = ['calls', 'attempts'] as const;

/**
 * SQLSTATEs after which a partition is skipped until the next day, while the default partition holds its rows: the default already has rows
 * of it (23514), another process is creating it (42P07, 23505), or the table could not be locked in time (55P03, 40P01).
 */
const toleratedStates = new Set<unknown>(['23514', '42P07', '23505', '55P03', '40P01']);

/** Creates the missing partitions of this month and the next. */
export async function ensurePartitions(database: Database, clock: Clock): Promise<void> {
  const thisMonth = monthAt(clock.now());
  for (const month of [thisMonth, monthAt(thisMonth.end)]) {
    for (const table of tables) await ensurePartition(database, table, month);
  }
}

async function ensurePartition(database: Database, table: (typeof tables)[number], month: ReturnType<typeof monthAt>): Promise<void> {
  const name = `${table}_${month.name.replace('-', '_')}`;
  // Checked first, since `create table` locks the parent table even if the partition exists.
  const [existing] = await database.query<{ exists: boolean }>(`select to_regclass($1::text) is not null as "exists"`, [name]);
  if (existing?.exists) return;
  try {
    await database.transaction(async (tx) => {
      await tx.query(`set local lock_timeout = '2s'`);
      // Identifiers and bounds cannot be parameters here; neither contains user input.
      await tx.query(
        `create table if not exists ${name} partition of ${table} for values from ('${minIdAt(month.start)}') to ('${minIdAt(month.end)}')`,
      );
    });
  } catch (error) {
    if (!toleratedStates.has(errorCode(error))) throw error;
  }
}
