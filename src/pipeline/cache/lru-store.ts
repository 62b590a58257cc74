/**
 * Keeps cached responses in memory, up to a number of bytes, and evicts the least recently used entry first. There are
 * no timers. We delete an expired entry when it's read or when it becomes the least recently used one.
 */
import { LRUCache } from 'lru-cache';
import type { RequestChanges } from '../../dialects/translate/request-changes.ts';

export type ResponseFormat = 'plain' | 'stream';

export interface CachedResponse {
  /** The bytes that we sent to the caller, in a buffer that holds nothing else. */
  readonly bytes: Buffer;
  readonly contentType: string;
  /** The `<provider>/<model>` that responded. */
  readonly model: string;
  /**
   * What happened to members of the request that the vendor didn't get as they were sent. Null or absent if nothing was
   * translated.
   */
  readonly changes?: RequestChanges | null;
  readonly projectId: string;
  /** The SHA-256 (hexadecimal) of the subjects whose data the response may contain, for erasures. */
  readonly subjects: readonly string[];
  readonly storedAt: number;
  /** Based on the project's settings at `storedAt`. The current settings may be stricter. */
  readonly expiresAt: number;
}

/**
 * The memory of an entry's key, strings and objects, in addition to its bytes. This keeps many small entries within the
 * limit.
 */
const overheadBytes = 1_024;

export function createResponseStore(maxBytes: number) {
  let evicted = 0;
  const entries = new LRUCache<string, CachedResponse>({
    maxSize: maxBytes,
    // The bytes count twice, because a response that was served once also keeps its text, so that we parse it only
    // once.
    sizeCalculation: ({ bytes }) => 2 * bytes.length + overheadBytes,
    dispose: (_response, _key, reason) => {
      if (reason === 'evict') evicted += 1;
    },
  });

  return {
    /** Returns null if there is no entry that's younger than `ttlMs`. Doesn't mark the entry as used. */
    get(key: string, now: number, ttlMs: number): CachedResponse | null {
      const entry = entries.peek(key);
      if (!entry) return null;
      if (now < entry.expiresAt && now < entry.storedAt + ttlMs) return entry;
      entries.delete(key);
      return null;
    },
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
