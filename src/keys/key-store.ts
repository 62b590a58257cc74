/**
 * Reads and writes the tables `virtual_keys` and `key_ceilings`. Ceilings have a query of their own, because the API
 * reports a different error code if that query fails.
 */
import { gatewayError } from '../core/errors.ts';
import type { CeilingName, WindowKind } from '../core/windows.ts';
import type { Database, Queries } from '../db/database.ts';
import { type Ceilings, type KeyRecord, type KeySettings, noCeilings } from './key-record.ts';

/** NOTIFY channel for changed keys. The payload is the key's prefix. */
export const keyChannel = 'gateway_keys';

export interface KeyOfProject {
  readonly prefix: string;
  readonly projectId: string;
}

export type KeyRow = Omit<KeyRecord, 'ceilings'> & { readonly secretHash: Buffer };

/** Inserts a key into an existing project. Throws `conflict` if the id is taken. */
export async function insertKey(
  tx: Queries,
  key: { id: string; quotaKeyId: string; projectId: string; prefix: string; secretHash: Buffer; settings: KeySettings; now: number },
): Promise<KeyRecord> {
  const { id, quotaKeyId, projectId, prefix, secretHash, settings, now } = key;
  const inserted = await tx.query(
    `insert into virtual_keys (
       id, project_id, prefix, secret_sha256, name, models, expires_at, created_at, counted_as, on_budget_store_down, default_max_output_tokens,
       required_tags
     )
     values (
       $1::uuid, $2::uuid, $3::text, $4::bytea, $5::text, $6::text[], $7::timestamptz, $8::timestamptz, nullif($9::uuid, $1::uuid), $10::text,
       $11::integer, $12::text[]
     )
     on conflict (id) do nothing returning id`,
    [
      ...[id, projectId, prefix, secretHash, settings.name, settings.models, dateOrNull(settings.expiresAt), new Date(now), quotaKeyId],
      ...[settings.onBudgetStoreDown, settings.defaultMaxOutputTokens, settings.requiredTags],
    ],
  );
  if (inserted.length === 0) throw gatewayError('conflict', { message: 'this key has already been issued' });
  await insertCeilings(tx, [id], settings.ceilings);
  await notifyKeyChange(tx, prefix);
  // Pick the fields one by one. `settings` may be a whole KeyRecord, whose id we'd otherwise copy.
  const { name, models, requiredTags, ceilings, expiresAt, onBudgetStoreDown, defaultMaxOutputTokens } = settings;
  const ofSettings = { name, models, requiredTags, ceilings, expiresAt, onBudgetStoreDown, defaultMaxOutputTokens };
  return { id, quotaKeyId, projectId, prefix, ...ofSettings, revokedAt: null, createdAt: now };
}

async function insertCeilings(tx: Queries, keyIds: readonly string[], ceilings: Ceilings): Promise<void> {
  const limited = Object.entries(ceilings).filter(([, { limit }]) => limit !== null);
  await tx.query(
    `insert into key_ceilings (key_id, ceiling, limit_value, window_kind)
     select key_id, limited.* from unnest($1::uuid[]) as key_id cross join unnest($2::text[], $3::bigint[], $4::text[]) as limited`,
    [keyIds, limited.map(([name]) => name), limited.map(([, { limit }]) => limit), limited.map(([, { window }]) => window)],
  );
}

/** Updates a key. Ceilings and required tags apply to all keys in `chain`, i.e. those with the same `quotaKeyId`. */
export async function updateKey(tx: Queries, id: string, settings: KeySettings, chain: readonly KeyRow[]): Promise<void> {
  const { name, models, requiredTags, ceilings, expiresAt, onBudgetStoreDown, defaultMaxOutputTokens } = settings;
  await tx.query(
    `update virtual_keys
        set name = $2::text, models = $3::text[], expires_at = $4::timestamptz, on_budget_store_down = $5::text,
            default_max_output_tokens = $6::integer
      where id = $1::uuid`,
    [id, name, models, dateOrNull(expiresAt), onBudgetStoreDown, defaultMaxOutputTokens],
  );
  const ids = chain.map((key) => key.id);
  await tx.query('update virtual_keys set required_tags = $2::text[] where id = any($1::uuid[])', [ids, requiredTags]);
  await tx.query('delete from key_ceilings where key_id = any($1::uuid[])', [ids]);
  await insertCeilings(tx, ids, ceilings);
  for (const { prefix } of chain) await notifyKeyChange(tx, prefix);
}

/**
 * Locks all keys with this `quotaKeyId` until the transaction ends. The first key of the chain is locked before the
 * others, so that concurrent transactions can't deadlock. Rotations do that as well, so the chain can't grow in the
 * meantime.
 */
export async function lockKeyChain(tx: Queries, quotaKeyId: string): Promise<KeyRow[]> {
  await tx.query('select 1 from virtual_keys where id = $1::uuid for no key update', [quotaKeyId]);
  const rows = await tx.query<StoredKey>(
    `select ${keyColumns} from virtual_keys where id = $1::uuid or counted_as = $1::uuid order by id for no key update`,
    [quotaKeyId],
  );
  return rows.map(toKeyRow);
}

/** Makes every process drop the key from its cache as soon as the transaction commits. */
async function notifyKeyChange(tx: Queries, prefix: string): Promise<void> {
  await tx.query('select pg_notify($1::text, $2::text)', [keyChannel, prefix]);
}

/**
 * Revokes a key, or makes it expire at `at` if that's in the future and the key doesn't expire earlier. Returns null if
 * the project has no such key.
 */
export async function endKey(tx: Queries, key: { projectId: string; prefix: string; at: number; now: number }): Promise<KeyRow | null> {
  const { projectId, prefix, at, now } = key;
  const [row] = await tx.query<StoredKey>(
    `update virtual_keys
     set revoked_at = case when $3::timestamptz <= $4::timestamptz then coalesce(revoked_at, $4::timestamptz) else revoked_at end,
         expires_at = case when $3::timestamptz <= $4::timestamptz then expires_at else least(expires_at, $3::timestamptz) end
     where project_id = $1::uuid and prefix = $2::text
     returning ${keyColumns}`,
    [projectId, prefix, new Date(at), new Date(now)],
  );
  if (!row) return null;
  await notifyKeyChange(tx, prefix);
  return toKeyRow(row);
}

export async function readKey(queries: Queries, prefix: string): Promise<KeyRow | null> {
  const [row] = await queries.query<StoredKey>(`select ${keyColumns} from virtual_keys where prefix = $1::text`, [prefix]);
  return row ? toKeyRow(row) : null;
}

export async function readKeyById(queries: Queries, projectId: string, id: string): Promise<KeyRow | null> {
  const [row] = await queries.query<StoredKey>(`select ${keyColumns} from virtual_keys where id = $1::uuid and project_id = $2::uuid`, [
    id,
    projectId,
  ]);
  return row ? toKeyRow(row) : null;
}

/** Reads keys by prefix. Unknown prefixes are skipped. */
export async function readKeys(queries: Queries, prefixes: readonly string[]): Promise<KeyRow[]> {
  const rows = await queries.query<StoredKey>(`select ${keyColumns} from virtual_keys where prefix = any($1::text[])`, [prefixes]);
  return rows.map(toKeyRow);
}

/** Reads keys of any project with their ceilings. Unknown ids are skipped. */
export async function readKeyRecords(queries: Queries, ids: readonly string[]): Promise<KeyRecord[]> {
  const [rows, ceilings] = await Promise.all([
    queries.query<StoredKey>(`select ${keyColumns} from virtual_keys where id = any($1::uuid[])`, [ids]),
    readCeilings(queries, ids),
  ]);
  return rows.map((row) => toKeyRecord(toKeyRow(row), ceilings.get(row.id)));
}

export function listNewestKeys(
  queries: Queries,
  { now, limit }: { readonly now: number; readonly limit: number },
): Promise<KeyOfProject[]> {
  return queries.query<KeyOfProject>(
    `select prefix, project_id as "projectId" from virtual_keys
      where revoked_at is null and (expires_at is null or expires_at > $1::timestamptz) order by id desc limit $2::integer`,
    [new Date(now), limit],
  );
}

export interface KeyPage {
  /** Only returns keys that were issued before the one with this id. Null for the first page. */
  readonly before: string | null;
  readonly limit: number;
  /** Only returns keys that are neither revoked nor expired at this time. Null for all keys. */
  readonly usableAt: number | null;
}

/** Newest first. Without a `page`, returns all keys of the project. */
export async function listKeys(database: Database, projectId: string, page?: KeyPage): Promise<KeyRecord[]> {
  const rows = await database.query<StoredKey>(
    `select ${keyColumns} from virtual_keys
      where project_id = $1::uuid and ($2::uuid is null or id < $2::uuid)
        and ($4::timestamptz is null or (revoked_at is null and (expires_at is null or expires_at > $4::timestamptz)))
      order by id desc limit $3::bigint`,
    [projectId, page?.before ?? null, page?.limit ?? null, dateOrNull(page?.usableAt ?? null)],
  );
  const ceilings = await readCeilings(
    database,
    rows.map((row) => row.id),
  );
  return rows.map((row) => toKeyRecord(toKeyRow(row), ceilings.get(row.id)));
}

/** Returns the ceilings by key id. Keys without a limit have no entry. */
export async function readCeilings(queries: Queries, keyIds: readonly string[]): Promise<Map<string, Ceilings>> {
  const rows = await queries.query<{ keyId: string; ceiling: CeilingName; limit: number; window: WindowKind }>(
    `select key_id as "keyId", ceiling, limit_value as "limit", window_kind as "window" from key_ceilings where key_id = any($1::uuid[])`,
    [keyIds],
  );
  const byKey = new Map<string, Ceilings>();
  for (const { keyId, ceiling, limit, window } of rows) {
    byKey.set(keyId, { ...(byKey.get(keyId) ?? noCeilings), [ceiling]: { limit, window } });
  }
  return byKey;
}

export function toKeyRecord({ secretHash: _, ...key }: KeyRow, ceilings: Ceilings | undefined): KeyRecord {
  return { ...key, ceilings: ceilings ?? noCeilings };
}

/**
 * Read the required tags from the first key of the chain. Processes of older versions don't copy them to the new key
 * during a rotation.
 */
const keyColumns = `id, coalesce(counted_as, id) as "quotaKeyId", project_id as "projectId", prefix, secret_sha256 as "secretHash", name, models, expires_at as "expiresAt",
  revoked_at as "revokedAt", created_at as "createdAt", on_budget_store_down as "onBudgetStoreDown",
  default_max_output_tokens as "defaultMaxOutputTokens",
  (select first.required_tags from virtual_keys first where first.id = coalesce(virtual_keys.counted_as, virtual_keys.id)) as "requiredTags"`;

type Stored<Row> = {
  [Column in keyof Row]: Column extends 'expiresAt' | 'revokedAt' ? Date | null : Column extends 'createdAt' ? Date : Row[Column];
};
type StoredKey = Stored<KeyRow>;

function toKeyRow(row: StoredKey): KeyRow {
  return {
    ...row,
    expiresAt: row.expiresAt?.getTime() ?? null,
    revokedAt: row.revokedAt?.getTime() ?? null,
    createdAt: row.createdAt.getTime(),
  };
}

function dateOrNull(epochMs: number | null): Date | null {
  return epochMs === null ? null : new Date(epochMs);
}
