/**
 * Builds indexes on large tables without blocking writers. PostgreSQL can't do that on a partitioned table, so we build
 * an index concurrently on each partition and attach it to the parent index. Partitions that are created in the
 * meantime get the index automatically. If a build is interrupted, the next one continues where it stopped.
 */
import { errorCode } from '../core/error-messages.ts';
import type { Queries } from './database.ts';

export interface IndexDefinition {
  readonly name: string;
  readonly table: string;
  /** The part of `create index` after the table name: the method, the columns, and the condition of a partial index. */
  readonly columns: string;
}

/**
 * Parses a migration that only creates indexes. Returns null if `sql` contains anything but comments and statements of
 * the form `create index <name> on <table> [using <method>] (…)`.
 */
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
   * Holds the migration lock and reads the catalog. Don't pass any parameters, because PostgreSQL would hold on to the
   * last statement's snapshot, and the concurrent index build would wait for that forever.
   */
  readonly tx: Queries;
  readonly run: (statement: string) => Promise<void>;
}

/**
 * Only call this for PostgreSQL servers. The embedded database has a single session, so a plain index build can't block
 * any other writers there.
 */
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

/**
 * Creates the parent index. That's fast once it has its lock, but it has to wait for current writers, and meanwhile
 * other statements queue up behind it. So we use a short lock timeout and try again.
 */
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
