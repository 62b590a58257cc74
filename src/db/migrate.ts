/**
 * Applies schema migrations. These are numbered SQL files. A single process at a time applies them in order, each in
 * its own transaction. There are no down migrations.
 *
 * The version of a server is the number of its newest migration. The schema's `oldest_server` is the oldest version
 * that still works with it. A migration that breaks older servers raises it in its first line (`-- oldest_server: 7`).
 * Otherwise older servers can run on a newer schema, so two versions can run side by side during a rolling deployment.
 * A file that begins with `-- concurrently` only contains indexes, which we build outside of a transaction so that
 * writers aren't blocked. See docs/architecture/database.md.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode, errorMessage, errorSummary } from '../core/error-messages.ts';
import { readVersion } from '../core/version.ts';
import { buildIndexes, parseIndexes } from './concurrent-indexes.ts';
import type { Database, Queries } from './database.ts';
import { tryLockGlobal } from './locks.ts';

type Migration = Awaited<ReturnType<typeof readMigration>>;

/** Thrown if the schema isn't compatible with this server. The message says which of the two is too old. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
}

const lockTimeoutMs = 600_000;
const lockRetryMs = 200;
const migrationsFolder = new URL('./migrations/', import.meta.url);

/**
 * Applies all missing migrations. If several processes call this at the same time, each migration is applied only once
 * and all of the calls succeed.
 */
export async function migrate(database: Database, folder: URL = migrationsFolder): Promise<{ applied: number }> {
  const migrations = await readMigrations(folder);
  const deadline = performance.now() + lockTimeoutMs;
  let applied = 0;
  for (;;) {
    const step = await database
      .transaction((tx) => applyNext(database, tx, migrations))
      .catch((error: unknown) => retryDeadlock(database, error));
    if (step === 'done') return { applied };
    if (step === 'applied') applied += 1;
    else if (performance.now() < deadline) await sleep(lockRetryMs);
    else
      throw new SchemaError('another process has been migrating the database for ten minutes; check whether it is stuck, then try again');
  }
}

/**
 * Deadlocks are possible, because running servers may lock a migration's tables in a different order. We retry after a
 * deadlock.
 */
async function retryDeadlock(database: Database, error: unknown): Promise<'locked'> {
  if (error instanceof SchemaError && errorCode(error.cause) === '40P01') return 'locked';
  if (error instanceof SchemaError) await explainMissingExtension(database, error.cause);
  throw error;
}

/**
 * If the migration failed because we can't create the pgvector extension, throws an error that says what to do. The
 * server may lack the extension, or the role may not be allowed to create it, as is the case for most roles.
 */
async function explainMissingExtension(database: Database, cause: unknown): Promise<void> {
  if (!/extension "vector"/.test(errorMessage(cause))) return;
  if (errorCode(cause) !== '42501')
    throw new SchemaError(`the database server needs pgvector 0.8 or newer; install it on the server: ${errorSummary(cause)}`, { cause });
  const { name, role } = await readDatabaseNames(database);
  throw new SchemaError(
    `the database ${name} does not have the vector extension, and the role ${role} is not allowed to create it. Connect to this database as a superuser, run CREATE EXTENSION vector; and then run gateway migrate again`,
    { cause },
  );
}

async function readDatabaseNames(database: Database): Promise<{ name: string; role: string; hasVector: boolean }> {
  const [row] = await database.query<{ name: string; role: string; hasVector: boolean }>(
    `select current_database() as name, current_user as role,
            exists (select from pg_extension where extname = 'vector') as "hasVector"`,
  );
  if (!row) throw new Error('expected the database to return its name');
  return row;
}

/** Throws a SchemaError if migrations of this server are missing, or if the schema no longer supports this server. */
export async function checkSchema(database: Database, folder: URL = migrationsFolder): Promise<void> {
  const migrations = await readMigrations(folder);
  const [table] = await database.query<{ found: boolean }>(`select to_regclass('schema_migrations') is not null as found`);
  const rows = table?.found ? await readApplied(database) : [];
  const applied = new Set(rows.map((row) => row.version));
  const missing = migrations.filter((migration) => !applied.has(migration.version));
  if (missing.length > 0) {
    const { name, hasVector } = await readDatabaseNames(database);
    const first = hasVector ? '' : ` (but first, as a superuser in the database ${name}: CREATE EXTENSION vector;)`;
    const names = missing.map((migration) => migration.name);
    const list = names.length > 3 ? `${names[0]} and ${names.length - 1} more` : names.join(', ');
    throw new SchemaError(`the database is missing migration ${list}; run: gateway migrate${first}`);
  }
  rejectUnsupportedSchema(rows, migrations);
}

interface AppliedRow {
  readonly version: number;
  readonly name: string;
  readonly checksum: string;
  readonly oldestServer: number;
  /** The release that applied the migration. Null in old rows, because earlier releases didn't store this. */
  readonly release: string | null;
}

/** Applies the next missing migration. It runs in a transaction, unless it has to build indexes concurrently. */
async function applyNext(database: Database, tx: Queries, migrations: readonly Migration[]): Promise<'applied' | 'done' | 'locked'> {
  // Poll for the lock, because a statement that waits for it would time out while another process builds a large index.
  if (!(await tryLockGlobal(tx, 'migrate'))) return 'locked';
  // Turn off the timeouts of this transaction, because it sits idle while the indexes are built on another connection.
  await tx.query('set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0');
  await tx.query(
    `create table if not exists schema_migrations (
       version integer primary key,
       name text not null,
       checksum text not null,
       oldest_server integer not null,
       applied_at timestamptz not null default now()
     )`,
  );
  const rows = await readApplied(tx);
  rejectUnsupportedSchema(rows, migrations);
  rejectEditedMigration(rows, migrations);
  const applied = new Set(rows.map((row) => row.version));
  const next = migrations.find((migration) => !applied.has(migration.version));
  if (!next) return 'done';
  try {
    // `tx` holds the migration lock while the indexes are built on another connection.
    if (next.indexes && database.kind === 'server') {
      const { signal } = new AbortController();
      await buildIndexes({ tx, run: (statement) => database.runWithoutTimeout(statement, signal) }, next.indexes);
    } else await tx.query(next.sql);
  } catch (cause) {
    throw new SchemaError(`migration ${next.name} failed: ${errorMessage(cause)}`, { cause });
  }
  // At this point, `schema_migrations` may lack columns that a later migration adds, so only fill those that exist.
  await tx.query(
    `insert into schema_migrations
     select * from jsonb_populate_record(null::schema_migrations, jsonb_build_object(
       'version', $1::integer, 'name', $2::text, 'checksum', $3::text, 'oldest_server', $4::integer, 'release', $5::text, 'applied_at', now()))`,
    [next.version, next.name, next.checksum, next.oldestServer, readVersion()],
  );
  return 'applied';
}

async function readApplied(queries: Queries): Promise<AppliedRow[]> {
  return queries.query<AppliedRow>(
    `select version, name, checksum, oldest_server as "oldestServer", to_jsonb(schema_migrations) ->> 'release' as release
       from schema_migrations order by version`,
  );
}

function rejectUnsupportedSchema(rows: readonly AppliedRow[], migrations: readonly Migration[]): void {
  const version = migrations.at(-1)?.version ?? 0;
  const oldestSupported = Math.max(0, ...rows.map((row) => row.oldestServer));
  if (version >= oldestSupported) return;
  // Recommend the first release whose schema is new enough. If we don't know its name, recommend the latest release
  // that we know of.
  const needed = rows.find((row) => row.version >= oldestSupported)?.release ?? rows.findLast((row) => row.release !== null)?.release;
  throw new SchemaError(
    `the database needs ${needed ? `gateway ${needed}, ` : ''}schema ${oldestSupported} or newer; this is gateway ${readVersion()}, schema ${version}: install a newer gateway, or restore a backup from before the upgrade`,
  );
}

function rejectEditedMigration(rows: readonly AppliedRow[], migrations: readonly Migration[]): void {
  for (const row of rows) {
    const shipped = migrations.find((migration) => migration.version === row.version);
    if (shipped && shipped.checksum !== row.checksum) {
      throw new SchemaError(`migration ${shipped.name} was changed after it was applied; add a new migration instead`);
    }
  }
}

async function readMigrations(folder: URL): Promise<Migration[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort();
  const migrations = await Promise.all(files.map((file) => readMigration(folder, file)));
  migrations.forEach((migration, index) => {
    if (migration.version !== index + 1)
      throw new SchemaError(`migration files must be numbered without gaps, but file number ${index + 1} is ${migration.name}`);
  });
  return migrations;
}

/**
 * Reads a migration file. If the migration runs in a single transaction, `indexes` is null. Otherwise it only contains
 * indexes, which are built concurrently.
 */
async function readMigration(folder: URL, file: string) {
  // Normalize line endings, so that checkouts on Windows have the same checksum.
  const sql = (await readFile(new URL(file, folder), 'utf8')).replaceAll('\r\n', '\n');
  const breaking = /^-- oldest_server: (\d+)\n/.exec(sql);
  const name = file.slice(0, -'.sql'.length);
  const indexes = sql.startsWith('-- concurrently\n') ? parseIndexes(sql) : null;
  if (indexes === null && sql.startsWith('-- concurrently\n'))
    throw new SchemaError(`migration ${name} is concurrent and contains something other than create index <name> on <table> (…)`);
  return {
    version: Number(file.slice(0, 4)),
    name,
    indexes,
    sql,
    oldestServer: breaking ? Number(breaking[1]) : 1,
    checksum: createHash('sha256').update(sql).digest('hex'),
  };
}
