/**
 * Caches database rows that every call needs, such as its key and its project:
 *
 * - A row younger than `maxAgeMs` is returned synchronously. An older one is returned too, and reloaded in the
 *   background.
 * - If the database is unavailable, the last known row stays valid until `staleIfErrorMs` after it was loaded.
 * - `invalidate(key)` drops the row and discards the result of a load in flight.
 * - `invalidateAll`, for when notifications may have been lost, makes each row wait for a reload. If that fails, the
 *   old row stays valid.
 * - `warm` loads rows before they're needed, so that we can serve them during an outage that starts later.
 * - We remember for `maxAgeMs` that a row doesn't exist. These entries are kept separately, so a flood of invented keys
 *   can't evict real rows.
 *
 * There's at most one load per key in flight.
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '../core/time.ts';

export interface RowCache<Row> {
  /**
   * Returns the row, or null if it doesn't exist. Only returns a promise if it has to query the database. Rejects with
   * the error of `load`.
   */
  get(key: string): Row | null | Promise<Row | null>;
  invalidate(key: string): void;
  invalidateAll(): void;
  /**
   * Loads the rows that aren't cached or were loaded more than five minutes ago. Rejects with the error of `loadMany`.
   */
  warm(keys: readonly string[], loadMany: LoadMany<Row>): Promise<void>;
  /** Returns how many rows would stay valid if the database became unavailable now. */
  countRows(): number;
}

/** Returns the existing rows by key. */
export type LoadMany<Row> = (keys: readonly string[]) => Promise<ReadonlyMap<string, Row>>;

export interface RowCacheOptions<Row> {
  readonly load: (key: string) => Promise<Row | null>;
  readonly clock: Clock;
  /** Called if a reload failed and the old row stays valid. */
  readonly onLoadError?: (error: unknown) => void;
  readonly maxAgeMs?: number;
  readonly staleIfErrorMs?: number;
  /** The maximum number of rows, and also of keys that we know don't exist. We evict the least recently used first. */
  readonly maxRows?: number;
}

interface Entry<Row> {
  readonly row: Row;
  readonly loadedAt: number;
  revalidateAt: number;
  mustRevalidate: boolean;
}

interface Load<Row> {
  readonly result: Promise<Row | null>;
  isSuperseded: boolean;
}

/** The delay after a failed background reload, so that an outage doesn't cause a query per call. */
const retryIntervalMs = 1_000;

const warmMs = 300_000;
const warmChunk = 500;

export function createRowCache<Row>(options: RowCacheOptions<Row>): RowCache<Row> {
  const { load, clock, onLoadError, maxAgeMs = 10_000, staleIfErrorMs = 3_600_000, maxRows = 20_000 } = options;
  const entries = new LRUCache<string, Entry<Row>>({ max: maxRows });
  /** The time at which we found that a key doesn't exist. */
  const missing = new LRUCache<string, number>({ max: maxRows });
  const loads = new Map<string, Load<Row>>();
  /** For each `warm` that is waiting for rows, the keys that haven't changed since it asked for them. */
  const warming = new Set<Set<string>>();

  const loadShared = (key: string): Promise<Row | null> => {
    const pending = loads.get(key);
    if (pending) return pending.result;
    const current: Load<Row> = { result: loadOnce(key, () => current.isSuperseded), isSuperseded: false };
    loads.set(key, current);
    const done = (): void => {
      if (loads.get(key) === current) loads.delete(key);
    };
    current.result.then(done, done);
    return current.result;
  };

  const loadOnce = async (key: string, isSuperseded: () => boolean): Promise<Row | null> => {
    const loadedAt = clock.now();
    const row = await load(key);
    // The row was changed during the load, so the result may be outdated.
    if (isSuperseded()) return loadShared(key);
    if (row === null) {
      entries.delete(key);
      missing.set(key, loadedAt);
    } else {
      store(key, row, loadedAt);
    }
    return row;
  };

  const store = (key: string, row: Row, loadedAt: number): void => {
    missing.delete(key);
    entries.set(key, { row, loadedAt, revalidateAt: loadedAt + maxAgeMs, mustRevalidate: false });
  };

  const loadedAtOf = (key: string): number => entries.peek(key)?.loadedAt ?? Number.NEGATIVE_INFINITY;

  const warmChunkOf = async (keys: readonly string[], loadMany: LoadMany<Row>): Promise<void> => {
    const loadedAt = clock.now();
    const unchanged = new Set(keys);
    warming.add(unchanged);
    try {
      for (const [key, row] of await loadMany(keys)) if (unchanged.has(key) && loadedAtOf(key) < loadedAt) store(key, row, loadedAt);
    } finally {
      warming.delete(unchanged);
    }
  };

  const revalidate = (key: string, entry: Entry<Row>): Promise<Row | null> =>
    loadShared(key).catch((error: unknown) => {
      // If the row was invalidated, it's no longer in the map and we must not serve it.
      if (entries.get(key) !== entry || clock.now() - entry.loadedAt >= staleIfErrorMs) throw error;
      onLoadError?.(error);
      entry.mustRevalidate = false;
      entry.revalidateAt = clock.now() + retryIntervalMs;
      return entry.row;
    });

  return {
    get(key) {
      const now = clock.now();
      const entry = entries.get(key);
      if (entry) {
        if (entry.mustRevalidate || now - entry.loadedAt >= staleIfErrorMs) return revalidate(key, entry);
        // If the clock has jumped back to before the load, the row may be older than it seems, so we reload it.
        if (now < entry.revalidateAt && now >= entry.loadedAt) return entry.row;
        entry.revalidateAt = now + retryIntervalMs;
        revalidate(key, entry).catch((error: unknown) => onLoadError?.(error));
        return entry.row;
      }
      const missingSince = missing.get(key);
      if (missingSince !== undefined && now - missingSince < maxAgeMs) return null;
      return loadShared(key);
    },
    invalidate(key) {
      entries.delete(key);
      missing.delete(key);
      for (const unchanged of warming) unchanged.delete(key);
      const pending = loads.get(key);
      if (pending) pending.isSuperseded = true;
      loads.delete(key);
    },
    invalidateAll() {
      missing.clear();
      for (const unchanged of warming) unchanged.clear();
      for (const entry of entries.values()) entry.mustRevalidate = true;
      for (const pending of loads.values()) pending.isSuperseded = true;
      loads.clear();
    },
    async warm(keys, loadMany) {
      const before = clock.now() - warmMs;
      const wanted = keys.filter((key) => loadedAtOf(key) <= before);
      for (let start = 0; start < wanted.length; start += warmChunk) await warmChunkOf(wanted.slice(start, start + warmChunk), loadMany);
    },
    countRows: () => entries.values().reduce((count, { loadedAt }) => count + (clock.now() - loadedAt < staleIfErrorMs ? 1 : 0), 0),
  };
}
