/**
 * Authenticates virtual keys, and issues, lists, changes, rotates and revokes them. `find` runs for every call, so keys
 * are cached. The cache is keyed by prefix, and we compare hashes, so that plain secrets don't stay in memory. A NOTIFY
 * makes all processes reject a revoked key within a second.
 */

import { type Caller, internalKeyId } from '../core/call.ts';
import { type GatewayError, gatewayError } from '../core/errors.ts';
import { newId } from '../core/ids.ts';
import type { Clock } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import { createNotifiedCache } from '../db/notified-cache.ts';
import { withQueryTimeout } from '../db/query-timeout.ts';
import type { Logger } from '../observability/logger.ts';
import { applyKeyChange, parseGraceSeconds, parseKeyInput } from './key-input.ts';
import { isSignedPass, parsePass, signPass } from './key-pass.ts';
import { type Ceilings, type KeyRecord, type KeySettings, noCeilings, toKeyInputJson } from './key-record.ts';
import {
  endKey,
  insertKey,
  type KeyOfProject,
  type KeyPage,
  type KeyRow,
  keyChannel,
  listKeys,
  listNewestKeys,
  lockKeyChain,
  readCeilings,
  readKey,
  readKeyById,
  readKeys,
  toKeyRecord,
  updateKey,
} from './key-store.ts';
import { generateSecret, hashSecret, matchesHash, parseSecret } from './secret.ts';

export interface Keyring {
  /** Authenticates a key. Throws `invalid_key`, `keystore_unavailable` or `limits_unavailable`. */
  find(secret: string): Promise<Caller>;
  /**
   * Like `find`, but only uses the cache. Returns null if the key isn't cached or the secret is wrong. Throws
   * `invalid_key` for other unusable keys.
   */
  findCached(secret: string): Caller | null;
  /** Returns false if `find` would reject every key, because the database doesn't respond and the cache is empty. */
  canFind(): Promise<boolean>;
  countCached(): number;
  /** Loads keys into the cache, so that their first calls don't have to wait for the database. */
  warm(prefixes: readonly string[]): Promise<void>;
  /** Returns the newest keys that are neither revoked nor expired, newest first. */
  listNewest(limit: number): Promise<KeyOfProject[]>;
  /** Issues a pass that's valid until `endsAt`. Throws the same errors as `find`. */
  issuePass(secret: string, endsAt: number): Promise<string>;
  /** Verifies a pass, and returns its key and caller. Throws the same errors as `find`. */
  findByPass(pass: string): Promise<KeyOfPass>;
  /** Returns the ceilings of an authenticated key. Throws `not_found` if the key no longer exists. */
  getCeilings(caller: Caller): Promise<TimedCeilings>;
  /** Issues a key. The secret is never shown again. Throws `conflict` if `id` is taken. */
  issue(projectId: string, input: unknown, id?: string): Promise<IssuedKey>;
  /** Returns a project's keys, newest first. Without a `page`, that's all of them. */
  list(projectId: string, page?: KeyPage): Promise<KeyRecord[]>;
  /** Throws `not_found` if the project has no key with this prefix. */
  read(projectId: string, prefix: string): Promise<KeyRecord>;
  /** Returns null if the project has no key with this id. */
  findById(projectId: string, id: string): Promise<KeyRecord | null>;
  /**
   * Sets the key's settings to the ones in `input`, and keeps all others. New ceilings apply to all keys that share
   * them. `check` gets the current settings in the format of a request, and can throw to prevent the change. Throws
   * `conflict` if the key is revoked.
   */
  change(
    projectId: string,
    prefix: string,
    input: unknown,
    check?: (current: object) => void,
  ): Promise<{ readonly before: KeyRecord; readonly after: KeyRecord }>;
  revoke(projectId: string, prefix: string): Promise<KeyRecord>;
  /**
   * Replaces a key with a new one with the same settings and the same usage. The old one keeps working for
   * `grace_seconds` from the body. `id` is for the new key (see `issue`).
   */
  rotate(projectId: string, prefix: string, input: unknown, id?: string): Promise<IssuedKey>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface IssuedKey {
  readonly secret: string;
  readonly record: KeyRecord;
}

export interface KeyOfPass {
  readonly record: KeyRecord;
  readonly caller: Caller;
  readonly endsAt: number;
}

export interface KeyringOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger?: Pick<Logger, 'warn'>;
}

/**
 * `readAt` is the time just before the ceilings were read from the database (`performance.now()`). It's absent if the
 * ceilings never change.
 */
export type TimedCeilings = Ceilings & { readonly readAt?: number };

interface CachedKey {
  readonly record: KeyRecord;
  readonly ceilings: TimedCeilings;
  readonly secretHash: Buffer;
  readonly caller: Caller;
}

export function createKeyring({ database, clock, logger }: KeyringOptions): Keyring {
  const cache = createNotifiedCache<CachedKey>({ database, channel: keyChannel, load: loadKey, clock, logger });

  async function loadKey(prefix: string): Promise<CachedKey | null> {
    const readAt = performance.now();
    const row = await withQueryTimeout(database, readKey(database, prefix)).catch((cause: unknown) => {
      throw gatewayError('keystore_unavailable', { cause });
    });
    if (!row) return null;
    const ceilings = await withQueryTimeout(database, readCeilings(database, [row.id])).catch((cause: unknown) => {
      throw gatewayError('limits_unavailable', { cause });
    });
    return toCachedKey(row, ceilings.get(row.id), readAt);
  }

  const toCachedKey = (row: KeyRow, ceilings: Ceilings | undefined, readAt: number): CachedKey => {
    const record = toKeyRecord(row, ceilings);
    const { id, quotaKeyId, projectId, models, requiredTags, expiresAt, onBudgetStoreDown, defaultMaxOutputTokens } = record;
    const ofCalls = { requiredTags, onBudgetStoreDown, defaultMaxOutputTokens };
    const caller = Object.freeze({ keyId: id, keyPrefix: row.prefix, quotaKeyId, projectId, models, expiresAt, ...ofCalls });
    return { record, ceilings: { ...record.ceilings, readAt }, secretHash: row.secretHash, caller };
  };

  const loadKeys = async (prefixes: readonly string[]): Promise<ReadonlyMap<string, CachedKey>> => {
    const readAt = performance.now();
    const rows = await readKeys(database, prefixes);
    const ceilings = await readCeilings(
      database,
      rows.map(({ id }) => id),
    );
    return new Map(rows.map((row) => [row.prefix, toCachedKey(row, ceilings.get(row.id), readAt)]));
  };

  const respondsToReads = (): Promise<boolean> =>
    withQueryTimeout(database, database.query('select 1 from virtual_keys limit 1')).then(
      () => true,
      () => false,
    );

  const requireUsable = (key: CachedKey): CachedKey => {
    const { revokedAt, expiresAt } = key.record;
    const isRevoked = revokedAt !== null;
    if (isRevoked || (expiresAt !== null && expiresAt <= clock.now())) {
      const { projectId, keyId, keyPrefix } = key.caller;
      const reason = isRevoked ? 'key_revoked' : 'key_expired';
      throw gatewayError('invalid_key', { refusal: { reason, key: { projectId, keyId, keyPrefix } } });
    }
    return key;
  };
  const authenticate = (key: CachedKey | null, secret: string): Caller => {
    if (!key || !matchesHash(secret, key.secretHash)) throw gatewayError('invalid_key');
    return requireUsable(key).caller;
  };

  /**
   * Inserts a key with the settings that `prepare` returns, in one transaction. `predecessor` is the old key in a
   * rotation.
   */
  const insert = async (
    projectId: string,
    prepare: (tx: Queries, now: number) => Promise<{ settings: KeySettings; predecessor: KeyRecord | null }>,
    givenId: string | undefined,
  ): Promise<IssuedKey> => {
    const now = clock.now();
    const id = givenId ?? newId(now);
    const { secret, prefix } = generateSecret();
    const record = await database.transaction(async (tx) => {
      const [project] = await tx.query('select 1 from projects where id = $1::uuid', [projectId]);
      if (!project) throw gatewayError('not_found', { message: 'no such project' });
      const { settings, predecessor } = await prepare(tx, now);
      return insertKey(tx, {
        id,
        quotaKeyId: predecessor?.quotaKeyId ?? id,
        projectId,
        prefix,
        secretHash: hashSecret(secret),
        settings,
        now,
      });
    });
    cache.invalidate(prefix);
    return { secret, record };
  };

  return {
    async find(secret) {
      const parsed = parseSecret(secret);
      if (!parsed) throw gatewayError('invalid_key');
      return authenticate(await cache.get(parsed.prefix), secret);
    },
    findCached(secret) {
      const parsed = parseSecret(secret);
      const key = parsed && cache.peek(parsed.prefix);
      return key && matchesHash(secret, key.secretHash) ? requireUsable(key).caller : null;
    },
    canFind: async () => cache.countRows() > 0 || (await respondsToReads()),
    countCached: cache.countRows,
    warm: (prefixes) => cache.warm(prefixes, loadKeys),
    listNewest: (limit) => listNewestKeys(database, { now: clock.now(), limit }),
    async issuePass(secret, endsAt) {
      const { prefix } = parseSecret(secret) ?? {};
      const key = prefix === undefined ? null : await cache.get(prefix);
      authenticate(key, secret);
      return signPass({ prefix: prefix ?? '', endsAt }, hashSecret(secret));
    },
    async findByPass(text) {
      const pass = parsePass(text);
      // Bypass the cache, so that the passes of a revoked key stop working in every process at the same moment.
      const key = pass && pass.endsAt > clock.now() ? await loadKey(pass.prefix) : null;
      if (!pass || !key || !isSignedPass(text, pass, key.secretHash)) throw gatewayError('invalid_key');
      const { record, caller } = requireUsable(key);
      return { record, caller, endsAt: pass.endsAt };
    },
    async getCeilings({ keyId, keyPrefix }) {
      if (keyId === internalKeyId) return noCeilings;
      const key = await cache.get(keyPrefix);
      if (!key) throw keyNotFound();
      return key.ceilings;
    },
    async issue(projectId, input, id) {
      const settings = parseKeyInput(input, clock.now());
      return insert(projectId, async () => ({ settings, predecessor: null }), id);
    },
    list: (projectId, page) => listKeys(database, projectId, page),
    async read(projectId, prefix) {
      const row = await readKey(database, prefix);
      if (row?.projectId !== projectId) throw keyNotFound();
      return toKeyRecord(row, (await readCeilings(database, [row.id])).get(row.id));
    },
    async findById(projectId, id) {
      const row = await readKeyById(database, projectId, id);
      return row && toKeyRecord(row, (await readCeilings(database, [row.id])).get(row.id));
    },
    async change(projectId, prefix, input, check) {
      const now = clock.now();
      const { chain, ...changed } = await database.transaction(async (tx) => {
        const { row, chain } = await lockKey(tx, projectId, prefix);
        const before = toKeyRecord(row, (await readCeilings(tx, [row.id])).get(row.id));
        if (before.revokedAt !== null) throw gatewayError('conflict', { message: 'the key is revoked; issue a new one' });
        check?.(toKeyInputJson(before));
        const settings = applyKeyChange(before, input, now);
        if (chain.some(({ id }) => id > row.id) && isLater(settings.expiresAt, before.expiresAt))
          throw gatewayError('conflict', {
            message: 'the key was rotated, so it cannot be valid for longer; use the key that replaced it',
          });
        await updateKey(tx, row.id, settings, chain);
        return { chain, before, after: { ...before, ...settings } };
      });
      for (const key of chain) cache.invalidate(key.prefix);
      return changed;
    },
    async revoke(projectId, prefix) {
      const now = clock.now();
      const row = await database.transaction((tx) => endKey(tx, { projectId, prefix, at: now, now }));
      cache.invalidate(prefix);
      if (!row) throw keyNotFound();
      return toKeyRecord(row, (await readCeilings(database, [row.id])).get(row.id));
    },
    async rotate(projectId, prefix, input, id) {
      const graceMs = parseGraceSeconds(input) * 1_000;
      const issued = await insert(
        projectId,
        async (tx, now) => {
          const { row: old } = await lockKey(tx, projectId, prefix);
          if (old.revokedAt !== null || (old.expiresAt !== null && old.expiresAt <= now)) {
            throw gatewayError('conflict', { message: 'the key is revoked or expired; issue a new one' });
          }
          await endKey(tx, { projectId, prefix, at: now + graceMs, now });
          const predecessor = toKeyRecord(old, (await readCeilings(tx, [old.id])).get(old.id));
          return { settings: predecessor, predecessor };
        },
        id,
      );
      cache.invalidate(prefix);
      return issued;
    },
    start: cache.start,
    stop: cache.stop,
  };
}

/** Locks a key until the transaction ends, together with all keys that share its ceilings. Throws `not_found`. */
async function lockKey(
  tx: Queries,
  projectId: string,
  prefix: string,
): Promise<{ readonly row: KeyRow; readonly chain: readonly KeyRow[] }> {
  const found = await readKey(tx, prefix);
  if (found?.projectId !== projectId) throw keyNotFound();
  const chain = await lockKeyChain(tx, found.quotaKeyId);
  const row = chain.find(({ id }) => id === found.id);
  if (!row) throw keyNotFound();
  return { row, chain };
}

/** Compares the times at which keys expire. Null stands for never. */
function isLater(one: number | null, other: number | null): boolean {
  return other !== null && (one === null || one > other);
}

function keyNotFound(): GatewayError {
  return gatewayError('not_found', { message: 'no such key' });
}
