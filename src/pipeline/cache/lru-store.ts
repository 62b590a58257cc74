/**
 * Cached responses in memory, bounded in bytes: the least recently used entry is evicted first. There are no timers: an expired entry is
 * deleted when it is read or when it is the least recently used one.
 */
import { LRUCache } from 'lru-cache';
import type { RequestChanges } from '../../dialects/translate/request-changes.ts';

export type ResponseFormat = 'plain' | 'stream';

export interface CachedResponse {
  /** The bytes that were sent to the caller, in a buffer that holds nothing else. */
  readonly bytes: Buffer;
  readonly contentType: string;
  /** `<provider>/<model>` that responded. */
  readonly model: string;
  /** What became of members that the vendor did not get as they were sent; null or absent when nothing was translated. */
  readonly changes?: RequestChanges | null;
  readonly projectId: string;
  /** SHA-256 (hexadecimal) of the subjects whose data the response may contain, for erasure. */
  readonly subjects: readonly string[];
  readonly storedAt: number;
  /** By the project's settings at `storedAt`; the current ones may be stricter. */
  readonly expiresAt: number;
}

/** Memory of an entry in addition to its bytes: key, strings and objects. Keeps many small entries within the limit. */
const overheadBytes = 1_024;

export function createResponseStore(maxBytes: number) {
  let evicted = 0;
  const entries = new LRUCache<string, CachedResponse>({
    maxSize: maxBytes,
    // Twice: a response that was served once is kept with its text, so that it is parsed once.
    sizeCalculation: ({ bytes }) => 2 * bytes.length + overheadBytes,
    dispose: (_response, _key, reason) => {
      if (reason === 'evict') evicted += 1;
    },
  });

  return {
    /** Null when there is no entry younger than `ttlMs`. Does not count as use. */
    get(key: string, now: number, ttlMs: number): CachedResponse | null {
      const entry = entries.peek(key);
      if (!entry) return null;
      if (now < entry.expiresAt && now < entry.storedAt + ttlMs) return entry;
      entries.delete(key);
      return null;
    },
    /** Marks an entry as the most recently used. */
    touch(key: string): void {
      entries.get(key);
    },
    set(key: string, response: CachedResponse): void {
      entries.set(key, response);
      for (const oldest of entries.rkeys()) {
        if ((entries.peek(oldest)?.expiresAt ?? 0) > response.storedAt) break;
        entries.delete(oldest);
      }
    },
    delete(key: string): void {
      entries.delete(key);
    },
    /** Returns the number of deleted entries. */
    deleteWhere(matches: (response: CachedResponse) => boolean): number {
      const matching = [...entries].filter(([, entry]) => matches(entry));
      for (const [key] of matching) entries.delete(key);
      return matching.length;
    },
    stats: () => ({ entries: entries.size, bytes: entries.calculatedSize, evicted }),
  };
}
