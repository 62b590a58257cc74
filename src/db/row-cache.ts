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
  drop(key: string): void;
  suspectAll(): void;
}

export interface RowCacheOptions<Row> {
  readonly load: (key: string) => Promise<Row | null>;
  readonly clock: Clock;
  /** Told when a read in the background failed; the old row stays in force. */
  readonly onFault?: (error: unknown) => void;
  readonly freshMs?: number;
  readonly lastingMs?: number;
  /** Bound of the rows, and of the keys known not to exist; the one longest unread goes first. */
  readonly maxRows?: number;
}

interface Entry<Row> {
  readonly row: Row;
  readonly readAt: number;
  nextReadAt: number;
  suspect: boolean;
}

interface Read<Row> {
  readonly result: Promise<Row | null>;
  worthless: boolean;
}

/** Pause after a failed read in the background, so that a store that is down is not asked at every call. */
const retryMs = 1_000;

export function createRowCache<Row>(options: RowCacheOptions<Row>): RowCache<Row> {
  const { load, clock, onFault, freshMs = 10_000, lastingMs = 3_600_000, maxRows = 20_000 } = options;
  const entries = new Map<string, Entry<Row>>();
  const missing = new Map<string, number>();
  const reads = new Map<string, Read<Row>>();

  const read = (key: string): Promise<Row | null> => {
    const underWay = reads.get(key);
    if (underWay) return underWay.result;
    const current: Read<Row> = { result: readOnce(key, () => current.worthless), worthless: false };
    reads.set(key, current);
    const done = (): void => {
      if (reads.get(key) === current) reads.delete(key);
    };
    current.result.then(done, done);
    return current.result;
  };

  const readOnce = async (key: string, isWorthless: () => boolean): Promise<Row | null> => {
    const readAt = clock.now();
    const row = await load(key);
    // The row changed while it was read: what came back may be from before, so it is read again.
    if (isWorthless()) return read(key);
    if (row === null) {
      entries.delete(key);
      put(missing, key, readAt, maxRows);
    } else {
      missing.delete(key);
      put(entries, key, { row, readAt, nextReadAt: readAt + freshMs, suspect: false }, maxRows);
    }
    return row;
  };

  const readOrKeep = (key: string, entry: Entry<Row>): Promise<Row | null> =>
    read(key).catch((error: unknown) => {
      // Only while nobody said that the row changed: then it is no longer in the map.
      if (entries.get(key) !== entry || clock.now() - entry.readAt >= lastingMs) throw error;
      onFault?.(error);
      entry.suspect = false;
      entry.nextReadAt = clock.now() + retryMs;
      return entry.row;
    });

  return {
    get(key) {
      const now = clock.now();
      const entry = entries.get(key);
      if (entry) {
        if (entry.suspect || now - entry.readAt >= lastingMs) return readOrKeep(key, entry);
        if (now < entry.nextReadAt) return entry.row;
        entry.nextReadAt = now + retryMs;
        readOrKeep(key, entry).catch((error: unknown) => onFault?.(error));
        return entry.row;
      }
      const missingSince = missing.get(key);
      if (missingSince !== undefined && now - missingSince < freshMs) return null;
      return read(key);
    },
    drop(key) {
      entries.delete(key);
      missing.delete(key);
      const underWay = reads.get(key);
      if (underWay) underWay.worthless = true;
      reads.delete(key);
    },
    suspectAll() {
      missing.clear();
      for (const entry of entries.values()) entry.suspect = true;
      for (const underWay of reads.values()) underWay.worthless = true;
      reads.clear();
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
