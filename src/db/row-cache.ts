/**
 * Caches database rows that every call needs, such as its key and project.
 *
 * - If a row is younger than `maxAgeMs`, we return it synchronously. If it's older, we return it anyway and reload it
 *   in the background.
 * - While the database is unavailable, the last known row stays valid until `staleIfErrorMs` after it was loaded.
 * - `invalidate(key)` drops the row, and discards the result of a load that is in flight.
 * - `invalidateAll` is for when we may have missed notifications. Each row then waits for a reload. If the reload
 *   fails, the old row stays valid.
 * - `warm` loads rows before they're needed, so that we can serve them during an outage that starts later.
 * - If a row doesn't exist, we remember that for `maxAgeMs`. We keep these keys separately, so that a flood of
 *   made-up keys can't evict real rows.
 *
 * There's at most one load in flight per key.
 */
import { createLruCache } from '../core/lru-cache.ts';
import type { Clock } from '../core/time.ts';

/** Loads several rows and returns them by key. A row that doesn't exist is missing from the map. */
type LoadMany<Row> = (keys: readonly string[]) => Promise<ReadonlyMap<string, Row>>;

export interface RowCacheOptions<Row> {
  readonly load: (key: string) => Promise<Row | null>;
  readonly clock: Clock;
  /** Called when a reload fails and the cache keeps serving the old row. */
  readonly onLoadError?: (error: unknown) => void;
  readonly maxAgeMs?: number;
  readonly staleIfErrorMs?: number;
  /**
   * Limits the number of cached rows, and also of keys that are known not to exist. The least recently used entry is
   * evicted first.
   */
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

/** The delay after a failed background reload. Without it, an outage would cause a query for every call. */
const retryIntervalMs = 1_000;

const warmMs = 300_000;
const warmChunk = 500;

export function createRowCache<Row>(options: RowCacheOptions<Row>) {
  const { load, clock, onLoadError, maxAgeMs = 10_000, staleIfErrorMs = 3_600_000, maxRows = 20_000 } = options;
  const entries = createLruCache<Entry<Row>>(maxRows);
  /** Caches the keys that have no row, with the time when we looked them up. */
  const missing = createLruCache<number>(maxRows);
  const loads = new Map<string, Load<Row>>();
  /**
   * For each `warm` that's running, the keys that it's still loading. When a row changes, we remove its key, so that
   * `warm` ignores the row that it has loaded.
   */
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
    // If the row has changed during the load, we may have loaded the old one, so load it again.
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
      // Return the old row if we can. If it was invalidated in the meantime or is too old, throw the error.
      if (entries.get(key) !== entry || clock.now() - entry.loadedAt >= staleIfErrorMs) throw error;
      onLoadError?.(error);
      entry.mustRevalidate = false;
      entry.revalidateAt = clock.now() + retryIntervalMs;
      return entry.row;
    });

  return {
    /** Returns the row if it's cached, even if it's outdated. */
    peek: (key: string): Row | null => entries.peek(key)?.row ?? null,
    /**
     * Returns null if there's no such row. The result is only a promise if the database has to be queried, and it
     * rejects if `load` fails.
     */
    get(key: string): Row | null | Promise<Row | null> {
      const now = clock.now();
      const entry = entries.get(key);
      if (entry) {
        if (entry.mustRevalidate || now - entry.loadedAt >= staleIfErrorMs) return revalidate(key, entry);
        // If the clock was set back to before the load, we don't know the age of the row, so reload it.
        if (now < entry.revalidateAt && now >= entry.loadedAt) return entry.row;
        entry.revalidateAt = now + retryIntervalMs;
        revalidate(key, entry).catch((error: unknown) => onLoadError?.(error));
        return entry.row;
      }
      const missingSince = missing.get(key);
      if (missingSince !== undefined && now - missingSince < maxAgeMs) return null;
      return loadShared(key);
    },
    invalidate(key: string): void {
      entries.delete(key);
      missing.delete(key);
      for (const unchanged of warming) unchanged.delete(key);
      const pending = loads.get(key);
      if (pending) pending.isSuperseded = true;
      loads.delete(key);
    },
    invalidateAll(): void {
      missing.clear();
      for (const unchanged of warming) unchanged.clear();
      for (const entry of entries.values()) entry.mustRevalidate = true;
      for (const pending of loads.values()) pending.isSuperseded = true;
      loads.clear();
    },
    /** Loads the rows, except those that were loaded within the last five minutes. Rejects if `loadMany` fails. */
    async warm(keys: readonly string[], loadMany: LoadMany<Row>): Promise<void> {
      const before = clock.now() - warmMs;
      const wanted = keys.filter((key) => loadedAtOf(key) <= before);
      for (let start = 0; start < wanted.length; start += warmChunk) await warmChunkOf(wanted.slice(start, start + warmChunk), loadMany);
    },
    /** Returns how many cached rows could still be served if the database went down now. */
    countRows: (): number => entries.values().reduce((count, { loadedAt }) => count + (clock.now() - loadedAt < staleIfErrorMs ? 1 : 0), 0),
  };
}
