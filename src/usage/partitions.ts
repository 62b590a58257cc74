/**
 * Creates the monthly partitions of `calls` and `attempts` ahead of time, so that transactions that store calls don't
 * have to.
 */
import { errorCode } from '../core/error-messages.ts';
import { minIdAt } from '../core/ids.ts';
import { type Clock, monthAt } from '../core/time.ts';
import type { Database } from '../db/database.ts';

const tables = ['calls', 'attempts'] as const;

/**
 * If creating a partition fails with one of these SQLSTATEs, we retry the next day, and rows go into the default
 * partition until then. The default partition may already have rows for that month (23514), another process may be
 * creating the same partition (42P07, 23505), or we couldn't lock the table in time (55P03, 40P01).
 */
const toleratedStates = new Set<unknown>(['23514', '42P07', '23505', '55P03', '40P01']);

export async function ensurePartitions(database: Database, clock: Clock): Promise<void> {
  const thisMonth = monthAt(clock.now());
  for (const month of [thisMonth, monthAt(thisMonth.end)]) {
    for (const table of tables) await ensurePartition(database, table, month);
  }
}

async function ensurePartition(database: Database, table: (typeof tables)[number], month: ReturnType<typeof monthAt>): Promise<void> {
  const name = `${table}_${month.name.replace('-', '_')}`;
  // Check first, because `create table` locks the parent table even if the partition already exists.
  const [existing] = await database.query<{ exists: boolean }>(`select to_regclass($1::text) is not null as "exists"`, [name]);
  if (existing?.exists) return;
  try {
    await database.transaction(async (tx) => {
      await tx.query(`set local lock_timeout = '2s'`);
      // PostgreSQL doesn't accept parameters for table names and partition bounds. None of these values come from a
      // user.
      await tx.query(
        `create table if not exists ${name} partition of ${table} for values from ('${minIdAt(month.start)}') to ('${minIdAt(month.end)}')`,
      );
    });
  } catch (error) {
    if (!toleratedStates.has(errorCode(error))) throw error;
  }
}
