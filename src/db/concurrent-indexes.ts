/**
 * Indexes of large tables, built without blocking writers. PostgreSQL builds none concurrently on a partitioned table, so each partition gets
 * its own, which is then attached; a partition that is created meanwhile has it from the start. A build that was interrupted continues.
 */
import { errorCode } from '../core/error-messages.ts';
import type { Queries } from './database.ts';

export interface IndexDefinition {
  readonly name: string;
  readonly table: string;
  /** What follows the table in `create index`: the method, columns, and the condition of a partial index. */
  readonly columns: string;
}

/** Null when `sql` holds anything but comments and statements of the form `create index <name> on <table> [using <method>] (…)`. */
export function parseIndexes(sql: string): readonly IndexDefinition[] | null {
  const statements = sql.replaceAll(/^--.*$/gm, '').split(';');
  const indexes = statements
    .filter((statement) => statement.trim() !== '')
    .map((statement) => /^create index (?<name>\w+) on (?<table>\w+) (?<columns>(?:using \w+ )?\(.*)$/s.exec(statement.trim())?.groups);
  return indexes.every((groups) => groups !== undefined)
    ? indexes.map(({ name = '', table = '', columns = '' }) => ({ name, table, columns }))
    : null;
}

export interface IndexBuilder {
  /**
   * Reads the catalog, in the transaction that holds the migration lock. Without parameters: PostgreSQL keeps the snapshot of a transaction's
   * last statement with parameters, and a concurrent build waits for old snapshots.
   */
  readonly tx: Queries;
  /** On a separate connection. */
  readonly run: (statement: string) => Promise<void>;
}

/** Only on a server: the embedded database has no other writers, and one session. */
export async function buildIndexes(builder: IndexBuilder, indexes: readonly IndexDefinition[]): Promise<void> {
  for (const index of indexes) {
    const [table] = await builder.tx.query<{ isPartitioned: boolean }>(
      `select relkind = 'p' as "isPartitioned" from pg_class where oid = '${index.table}'::regclass`,
    );
    if (table?.isPartitioned) await buildPartitioned(builder, index);
    else await build(builder, index);
  }
}

async function buildPartitioned(builder: IndexBuilder, { name, table, columns }: IndexDefinition): Promise<void> {
  await createParent(builder, `create index if not exists ${name} on only ${table} ${columns}`);
  const partitions = await builder.tx.query<{ partition: string }>(
    `select inhrelid::regclass::text as partition from pg_inherits
      where inhparent = '${table}'::regclass
        and not exists (select 1 from pg_index index join pg_inherits attached on attached.inhrelid = index.indexrelid
                         where index.indrelid = pg_inherits.inhrelid and attached.inhparent = '${name}'::regclass)
      order by 1`,
  );
  for (const { partition } of partitions) {
    const own = `${name}_${partition}`;
    await build(builder, { name: own, table: partition, columns });
    await builder.run(`alter index ${name} attach partition ${own}`);
  }
}

const lockTimeoutStates = new Set<unknown>(['55P03', '40P01']);

/** Takes no time, but waits for the writers of the moment; others queue after it, so it gives up and tries again. */
async function createParent({ run }: IndexBuilder, statement: string): Promise<void> {
  for (;;) {
    try {
      return await run(`set local lock_timeout = '1s'; ${statement}`);
    } catch (error) {
      if (!lockTimeoutStates.has(errorCode(error))) throw error;
    }
  }
}

async function build({ tx, run }: IndexBuilder, { name, table, columns }: IndexDefinition): Promise<void> {
  const [existing] = await tx.query<{ isValid: boolean }>(
    `select indisvalid as "isValid" from pg_index where indexrelid = to_regclass('${name}')`,
  );
  if (existing?.isValid) return;
  if (existing) await run(`drop index concurrently ${name}`);
  await run(`create index concurrently ${name} on ${table} ${columns}`);
}
