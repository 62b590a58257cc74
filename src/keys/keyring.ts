/**
 * Finds the caller behind a virtual key, and issues, lists, rotates and revokes keys.
 *
 * `find` is on the path of every call: synchronous while the key is in memory, without a plain secret kept anywhere (the cache goes by
 * prefix, the hash is compared each time). A revoked key is refused within a second in every process, by NOTIFY; a store that is down
 * is bridged as `db/row-cache.ts` says.
 */
import { type Caller, internalKeyId } from '../core/call.ts';
import { type GatewayError, gatewayError } from '../core/errors.ts';
import { newId } from '../core/ids.ts';
import type { Clock } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import { withQueryTimeout } from '../db/query-timeout.ts';
import { createRowCache } from '../db/row-cache.ts';
import { type KeySettings, parseGraceSeconds, parseKeyInput } from './key-input.ts';
import type { Ceilings, KeyRecord } from './key-record.ts';
import {
  endKey,
  insertKey,
  keyChannel,
  listKeys,
  lockKey,
  noCeilings,
  readCeilings,
  readKey,
  readPrefix,
  toKeyRecord,
} from './key-store.ts';
import { generateSecret, hashSecret, matchesHash, parseSecret } from './secret.ts';

export interface Keyring {
  /** The caller; throws (or rejects with) `invalid_key`, `keystore_unavailable` or `limits_unavailable`. */
  find(secret: string): Caller | Promise<Caller>;
  /** Ceilings of a key that `find` let in: what admission and `/status/peek` go by. */
  getCeilings(keyId: string): Ceilings | Promise<Ceilings>;
  describe(keyId: string): Promise<KeyRecord>;
  /** Makes a key from the body of shapes 19. The secret is returned this once. */
  issue(projectId: string, input: unknown): Promise<IssuedKey>;
  list(projectId: string): Promise<KeyRecord[]>;
  revoke(projectId: string, prefix: string): Promise<KeyRecord>;
  /** A new key with the same settings, which goes on with the old one's ceilings where they stand; the old one ends after the grace time of the body, or at once. */
  rotate(projectId: string, prefix: string, input: unknown): Promise<IssuedKey>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface IssuedKey {
  readonly secret: string;
  readonly record: KeyRecord;
}

export interface KeyringOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger?: { warn(fields: Readonly<Record<string, unknown>>, message: string): void };
}

interface CachedKey {
  readonly record: KeyRecord;
  readonly secretHash: Buffer;
  readonly caller: Caller;
}

/** Bound of the index from id to prefix; two short strings a key. */
const maxPrefixes = 100_000;

export function createKeyring({ database, clock, logger }: KeyringOptions): Keyring {
  const prefixes = new Map<string, string>();
  const cache = createRowCache<CachedKey>({
    clock,
    load: loadKey,
    onLoadError: (error) => logger?.warn({ error }, 'keys cannot be read again; the last known ones stay in force'),
  });
  let listening: { stop(): Promise<void> } | null = null;

  async function loadKey(prefix: string): Promise<CachedKey | null> {
    const row = await withQueryTimeout(database, readKey(database, prefix)).catch((cause: unknown) => {
      throw gatewayError('keystore_unavailable', { cause });
    });
    if (!row) return null;
    const ceilings = await withQueryTimeout(database, readCeilings(database, [row.id])).catch((cause: unknown) => {
      throw gatewayError('limits_unavailable', { cause });
    });
    const record = toKeyRecord(row, ceilings.get(row.id));
    if (prefixes.size >= maxPrefixes) prefixes.clear();
    prefixes.set(row.id, prefix);
    const { id, countedAs, projectId, models, expiresAt } = record;
    const caller = Object.freeze({ keyId: id, keyPrefix: prefix, quotaKeyId: countedAs, projectId, models, expiresAt });
    return { record, secretHash: row.secretHash, caller };
  }

  const authenticate = (found: CachedKey | null, secret: string): Caller => {
    if (!found || !matchesHash(secret, found.secretHash)) throw gatewayError('invalid_key');
    const { revokedAt, expiresAt } = found.record;
    if (revokedAt !== null || (expiresAt !== null && expiresAt <= clock.now())) throw gatewayError('invalid_key');
    return found.caller;
  };

  const findById = async (keyId: string): Promise<KeyRecord> => {
    const prefix = prefixes.get(keyId) ?? (await readPrefix(database, keyId));
    const found = prefix === null ? null : await cache.get(prefix);
    if (!found) throw keyNotFound();
    return found.record;
  };

  /** Makes the key that `prepare` describes, in one transaction with what `prepare` does. `before`: the key whose place it takes. */
  const insert = async (
    projectId: string,
    prepare: (tx: Queries, now: number) => Promise<{ settings: KeySettings; predecessor: KeyRecord | null }>,
  ): Promise<IssuedKey> => {
    const now = clock.now();
    const { secret, prefix } = generateSecret();
    const record = await database.transaction(async (tx) => {
      const [project] = await tx.query('select 1 from projects where id = $1::uuid', [projectId]);
      if (!project) throw gatewayError('not_found', { message: 'no such project' });
      const { settings, predecessor: before } = await prepare(tx, now);
      const id = newId(now);
      return insertKey(tx, { id, countedAs: before?.countedAs ?? id, projectId, prefix, secretHash: hashSecret(secret), settings, now });
    });
    // The notification comes to this process too, but perhaps after the key's first call.
    cache.invalidate(prefix);
    return { secret, record };
  };

  return {
    find(secret) {
      const parsed = parseSecret(secret);
      if (!parsed) throw gatewayError('invalid_key');
      const found = cache.get(parsed.prefix);
      return found instanceof Promise ? found.then((row) => authenticate(row, secret)) : authenticate(found, secret);
    },
    getCeilings(keyId) {
      if (keyId === internalKeyId) return noCeilings;
      const prefix = prefixes.get(keyId);
      if (prefix === undefined) return findById(keyId).then((record) => record.ceilings);
      const found = cache.get(prefix);
      return found instanceof Promise ? found.then(requireCeilings) : requireCeilings(found);
    },
    describe: findById,
    async issue(projectId, input) {
      const settings = parseKeyInput(input, clock.now());
      return insert(projectId, async () => ({ settings, predecessor: null }));
    },
    list: (projectId) => listKeys(database, projectId),
    async revoke(projectId, prefix) {
      const now = clock.now();
      const row = await database.transaction((tx) => endKey(tx, { projectId, prefix, at: now, now }));
      cache.invalidate(prefix);
      if (!row) throw keyNotFound();
      return toKeyRecord(row, (await readCeilings(database, [row.id])).get(row.id));
    },
    async rotate(projectId, prefix, input) {
      const graceMs = parseGraceSeconds(input) * 1_000;
      const issued = await insert(projectId, async (tx, now) => {
        const old = await lockKey(tx, projectId, prefix);
        if (!old) throw keyNotFound();
        if (old.revokedAt !== null || (old.expiresAt !== null && old.expiresAt <= now)) {
          throw gatewayError('conflict', { message: 'the key is revoked or expired; issue a new one' });
        }
        await endKey(tx, { projectId, prefix, at: now + graceMs, now });
        const predecessor = toKeyRecord(old, (await readCeilings(tx, [old.id])).get(old.id));
        return { settings: predecessor, predecessor };
      });
      cache.invalidate(prefix);
      return issued;
    },
    async start() {
      listening ??= await database.listen(keyChannel, cache.invalidate, cache.invalidateAll);
    },
    async stop() {
      await listening?.stop();
      listening = null;
    },
  };
}

function requireCeilings(found: CachedKey | null): Ceilings {
  if (!found) throw keyNotFound();
  return found.record.ceilings;
}

function keyNotFound(): GatewayError {
  return gatewayError('not_found', { message: 'no such key' });
}
