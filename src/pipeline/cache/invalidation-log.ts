/**
 * Times of erasures: a call that began before an erasure and ends after it must not store its response. Bounded; the oldest entries are
 * evicted first, long after the calls that they affect.
 */
import { LRUCache } from 'lru-cache';

/** Subjects are identified by their SHA-256. */
export function createInvalidationLog() {
  const invalidatedAt = new LRUCache<string, number>({ max: 10_000 });

  return {
    record(projectId: string, subject: string, now: number): void {
      invalidatedAt.set(`${projectId} ${subject}`, now);
    },
    isInvalidated: (projectId: string, subjects: readonly string[], startedAt: number): boolean =>
      subjects.some((subject) => (invalidatedAt.peek(`${projectId} ${subject}`) ?? Number.NEGATIVE_INFINITY) >= startedAt),
  };
}
