/**
 * Keeps cached responses in memory, up to a total number of bytes, and evicts the least recently used ones first. We
 * don't use timers. An expired entry is deleted when somebody reads it, or when it becomes the least recently used
 * entry.
 */
import { LRUCache } from 'lru-cache';
import type { RequestChanges } from '../../dialects/translate/request-changes.ts';

export type ResponseFormat = 'plain' | 'stream';

export interface CachedResponse {
  /**
   * A copy of the bytes that we sent to the caller. If this were a slice, it would keep the whole underlying buffer in
   * memory.
   */
  readonly bytes: Buffer;
  readonly contentType: string;
  /** `<provider>/<model>` */
  readonly model: string;
  /** The request fields that we dropped or adjusted for the vendor. Null or absent if the request wasn't translated. */
  readonly changes?: RequestChanges | null;
  readonly projectId: string;
  /** SHA-256 hashes (hexadecimal) of the subjects whose data may be in the response. Erasures need them. */
  readonly subjects: readonly string[];
  readonly storedAt: number;
  /**
   * When the response expires according to the project's TTL at the time when it was stored. Readers also check the
   * current TTL, which may be shorter by now.
   */
  readonly expiresAt: number;
}

/**
 * The memory that an entry needs for its key, strings and objects, on top of its bytes. If we ignored this, many small
 * entries could exceed the limit.
 */
const overheadBytes = 1_024;
/** The same for each subject of an entry, including its place in the index. */
const subjectBytes = 512;
/** If even more subjects share a response, we delete it, because each of them makes an entry larger. */
const maxSubjects = 32;

export function createResponseStore(maxBytes: number) {
  let evicted = 0;
  /** The keys of the entries about each subject, so that an erasure doesn't have to search the whole cache. */
  const keysBySubject = new Map<string, Set<string>>();
  const entries = new LRUCache<string, CachedResponse>({
    maxSize: maxBytes,
    // The bytes count twice, because once we've served a response, we also keep its text so that we don't have to parse
    // it again.
    sizeCalculation: ({ bytes, subjects }) => 2 * bytes.length + overheadBytes + subjects.length * subjectBytes,
    onInsert: ({ projectId, subjects }, key) => {
      for (const subject of subjects) {
        const name = subjectKey(projectId, subject);
        const keys = keysBySubject.get(name);
        if (keys) keys.add(key);
        else keysBySubject.set(name, new Set([key]));
      }
    },
    dispose: ({ projectId, subjects }, key, reason) => {
      if (reason === 'evict') evicted += 1;
      for (const subject of subjects) {
        const name = subjectKey(projectId, subject);
        const keys = keysBySubject.get(name);
        keys?.delete(key);
        if (keys?.size === 0) keysBySubject.delete(name);
      }
    },
  });

  return {
    /** Returns null for entries older than `ttlMs`. Reading an entry doesn't affect its position in the LRU order. */
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
    /** Records that a call about this subject got the response as well. */
    addSubject(key: string, subject: string): void {
      const entry = entries.peek(key);
      if (!entry || entry.subjects.includes(subject)) return;
      if (entry.subjects.length < maxSubjects) entries.set(key, { ...entry, subjects: [...entry.subjects, subject] });
      else entries.delete(key);
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
    /** Returns how many entries were deleted. */
    deleteSubject(projectId: string, subject: string): number {
      const keys = [...(keysBySubject.get(subjectKey(projectId, subject)) ?? [])];
      for (const key of keys) entries.delete(key);
      return keys.length;
    },
    stats: () => ({ entries: entries.size, bytes: entries.calculatedSize, evicted }),
  };
}

/** Names a subject of a project. The subject is a SHA-256 hash. */
export function subjectKey(projectId: string, subject: string): string {
  return `${projectId} ${subject}`;
}
