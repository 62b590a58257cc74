/**
 * Rows of the database kept in memory, for what every call needs (its key, its project) and nobody may wait for. The rules of decisions 7:
 *
 * - A row younger than `freshMs` is returned as it is, synchronously.
 * - An older one is returned too, and read again in the background.
 * - While the store cannot be read, the last known row stays in force until `lastingMs` after its last good read.
 * - `drop` (the store said: this row changed) makes the old row unusable at once, and the result of a read under way worthless.
 * - `suspectAll` (notifications may have been lost) makes each row wait for a read; if that fails the old row still stands.
 * - That a row does not exist is remembered too, for `freshMs`, apart from the rows: a flood of made-up keys evicts no real one.
 *
 * One read per key is under way at any time, whoever asks.
 */
import type { Clock } from '../core/time.ts';

export interface RowCache<Row> {
  /** The row, or null when there is none; a promise only when the store must be asked. Rejects with what `load` threw. */
  get(key: string): Row | null | Promise<Row | null>;
  invalidate(key: string): void;
  invalidateAll(): void;
}

export interface RowCacheOptions<Row> {
  readonly load: (key: string) => Promise<Row | null>;
  readonly clock: Clock;
  /** Told when a read in the background failed; the old row stays in force. */
  readonly onLoadError?: (error: unknown) => void;
  readonly maxAgeMs?: number;
  readonly staleIfErrorMs?: number;
  /** Bound of the rows, and of the keys known not to exist; the one longest unread goes first. */
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

/** Pause after a failed read in the background, so that a store that is down is not asked at every call. */
const retryIntervalMs = 1_000;

export function createRowCache<Row>(options: RowCacheOptions<Row>): RowCache<Row> {
  const { load, clock, onLoadError, maxAgeMs = 10_000, staleIfErrorMs = 3_600_000, maxRows = 20_000 } = options;
  const entries = new Map<string, Entry<Row>>();
  const missing = new Map<string, number>();
  const loads = new Map<string, Load<Row>>();

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
    // The row changed while it was read: what came back may be from before, so it is read again.
    if (isSuperseded()) return loadShared(key);
    if (row === null) {
      entries.delete(key);
      put(missing, key, loadedAt, maxRows);
    } else {
      missing.delete(key);
      put(entries, key, { row, loadedAt, revalidateAt: loadedAt + maxAgeMs, mustRevalidate: false }, maxRows);
    }
    return row;
  };

  const revalidate = (key: string, entry: Entry<Row>): Promise<Row | null> =>
    loadShared(key).catch((error: unknown) => {
      // Only while nobody said that the row changed: then it is no longer in the map.
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
        if (now < entry.revalidateAt) return entry.row;
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
      const pending = loads.get(key);
      if (pending) pending.isSuperseded = true;
      loads.delete(key);
    },
    invalidateAll() {
      missing.clear();
      for (const entry of entries.values()) entry.mustRevalidate = true;
      for (const pending of loads.values()) pending.isSuperseded = true;
      loads.clear();
    },
  };
}

/** Sets the key as the youngest of the map and lets the oldest go. */
function put<Value>(map: Map<string, Value>, key: string, value: Value, max: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= max) return;
  const oldest = map.keys().next();
  if (!oldest.done) map.delete(oldest.value);
}
