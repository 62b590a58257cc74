/** Stores refused calls and how many there were, and deletes both when they expire. */
import { minIdAt } from '../../core/ids.ts';
import type { RefusalReason } from '../../core/refusal.ts';
import type { Database, Queries } from '../../db/database.ts';
import { batchSize, type Column, toBatches } from '../../db/row-batches.ts';
import { insertInto } from '../store-calls.ts';

export interface RefusedRow {
  readonly id: string;
  readonly projectId: string;
  readonly keyId: string;
  readonly keyPrefix: string;
  /** The calling application. Null if the key itself was refused. */
  readonly source: string | null;
  /** Null if the call was refused before its body was read. */
  readonly requestedModel: string | null;
  readonly route: string;
  readonly status: number;
  readonly code: string;
  readonly reason: RefusalReason;
  readonly rule: string | null;
  /** The limit of the ceiling in calls, tokens or nano-dollars. */
  readonly limit: number | null;
}

export interface RefusalCount {
  readonly projectId: string;
  readonly keyPrefix: string;
  /** The start of the minute in milliseconds since 1970. */
  readonly minute: number;
  readonly reason: RefusalReason;
  calls: number;
  recorded: number;
}

/**
 * Stores refused calls and counts in one transaction. Leaves out projects that no longer exist, and doesn't change
 * calls that are already stored.
 */
export async function storeRefusals(database: Database, rows: readonly RefusedRow[], counts: readonly RefusalCount[]): Promise<void> {
  await database.transaction(async (tx) => {
    for (const batch of toBatches(rows)) {
      const { text, values } = insertInto('refused_calls', callColumns, batch);
      await tx.query(`${text} ${whereProjectExists} on conflict (id) do nothing`, values);
    }
    // Sort the counts, because processes that lock them in the same order can't deadlock.
    const sorted = [...counts].sort((one, other) => compare(nameOf(one), nameOf(other)));
    for (const batch of toBatches(sorted)) {
      const { text, values } = insertInto('refused_call_counts as stored', countColumns, batch);
      await tx.query(
        `${text} ${whereProjectExists} on conflict (project_id, minute, key_prefix, reason)
         do update set calls = stored.calls + excluded.calls, recorded = stored.recorded + excluded.recorded`,
        values,
      );
    }
  });
}

const whereProjectExists = 'where exists (select 1 from projects where projects.id = new.project_id)';

const callColumns: readonly Column<RefusedRow>[] = [
  ['id', 'uuid', ({ id }) => id],
  ['project_id', 'uuid', ({ projectId }) => projectId],
  ['key_id', 'uuid', ({ keyId }) => keyId],
  ['key_prefix', 'text', ({ keyPrefix }) => keyPrefix],
  ['source', 'text', ({ source }) => source],
  ['requested_model', 'text', ({ requestedModel }) => requestedModel],
  ['route', 'text', ({ route }) => route],
  ['status', 'integer', ({ status }) => status],
  ['code', 'text', ({ code }) => code],
  ['reason', 'text', ({ reason }) => reason],
  ['rule', 'text', ({ rule }) => rule],
  ['rule_limit', 'bigint', ({ limit }) => limit],
];

const countColumns: readonly Column<RefusalCount>[] = [
  ['project_id', 'uuid', ({ projectId }) => projectId],
  ['minute', 'timestamptz', ({ minute }) => new Date(minute).toISOString()],
  ['key_prefix', 'text', ({ keyPrefix }) => keyPrefix],
  ['reason', 'text', ({ reason }) => reason],
  ['calls', 'bigint', ({ calls }) => calls],
  ['recorded', 'bigint', ({ recorded }) => recorded],
];

/** Returns the name that identifies a count. When we store counts, those with the same name are added up. */
export function nameOf({ projectId, minute, keyPrefix, reason }: Omit<RefusalCount, 'calls' | 'recorded'>): string {
  return `${projectId} ${minute} ${keyPrefix} ${reason}`;
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/**
 * Deletes a batch of rows and counts older than `before`, and returns how many. 0 means that there's nothing left to
 * do.
 */
export async function deleteExpiredRefusals(database: Queries, before: number): Promise<number> {
  const rows = await database.query(
    `delete from refused_calls where id in (select id from refused_calls where id < $1::uuid order by id limit $2::integer) returning 1`,
    [minIdAt(before), batchSize],
  );
  if (rows.length > 0) return rows.length;
  const counts = await database.query(
    `delete from refused_call_counts where ctid in (
       select ctid from refused_call_counts where minute < $1::timestamptz order by minute limit $2::integer) returning 1`,
    [new Date(before), batchSize],
  );
  return counts.length;
}
