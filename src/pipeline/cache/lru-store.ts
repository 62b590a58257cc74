/**
 * Answers in memory, bounded in bytes: the one longest unused goes first. There are no timers; what is too old is no longer found, and
 * leaves when it is looked for or when its turn comes.
 */

export type ResponseFormat = 'plain' | 'stream';

export interface CachedResponse {
  /** As it went to the caller; a buffer of its own, so that nothing larger is held with it. */
  readonly bytes: Buffer;
  readonly contentType: string;
  /** `<provider>/<model>` that answered. */
  readonly model: string;
  readonly projectId: string;
  /** SHA-256 (hexadecimal) of the subjects whose data may be in it, for erasure. */
  readonly subjects: readonly string[];
  readonly storedAt: number;
  /** As the project's settings were then; they may be stricter now. */
  readonly expiresAt: number;
}

export interface ResponseStore {
  /** Null when there is none younger than `ttlMs`. */
  get(key: string, now: number, ttlMs: number): CachedResponse | null;
  /** An answer was used: it goes last. */
  touch(key: string): void;
  set(key: string, response: CachedResponse): void;
  delete(key: string): void;
  /** Returns how many went. */
  deleteWhere(matches: (response: CachedResponse) => boolean): number;
  stats(): { readonly entries: number; readonly bytes: number; readonly evicted: number };
}

/** What an entry needs beside its bytes: key, strings, objects, the buffer's own record. Small answers must not outgrow the bound by it. */
const overheadBytes = 1_024;

export function createResponseStore(maxBytes: number): ResponseStore {
  /** In the order of their last use. */
  const entries = new Map<string, CachedResponse>();
  let bytes = 0;
  let evicted = 0;

  const remove = (key: string): void => {
    const entry = entries.get(key);
    if (!entry) return;
    entries.delete(key);
    bytes -= sizeOf(entry);
  };

  return {
    get(key, now, ttlMs) {
      const entry = entries.get(key);
      if (!entry) return null;
      if (now < entry.expiresAt && now < entry.storedAt + ttlMs) return entry;
      remove(key);
      return null;
    },
    touch(key) {
      const entry = entries.get(key);
      if (!entry) return;
      entries.delete(key);
      entries.set(key, entry);
    },
    set(key, entry) {
      remove(key);
      entries.set(key, entry);
      bytes += sizeOf(entry);
      for (const [oldest, first] of entries) {
        const isOver = bytes > maxBytes;
        if (!isOver && first.expiresAt > entry.storedAt) break;
        remove(oldest);
        if (isOver) evicted += 1;
      }
    },
    delete: remove,
    deleteWhere(matches) {
      const meant = [...entries].filter(([, entry]) => matches(entry));
      for (const [key] of meant) remove(key);
      return meant.length;
    },
    stats: () => ({ entries: entries.size, bytes, evicted }),
  };
}

function sizeOf({ bytes }: CachedResponse): number {
  return bytes.length + overheadBytes;
}
