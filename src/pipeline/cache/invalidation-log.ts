/**
 * Remembers when subjects were erased, because a call that began before an erasure and ends after it must not store its
 * response. The log has a limited size and evicts its oldest entries first, long after the calls that they affect have
 * ended.
 */
import { LRUCache } from 'lru-cache';

/** The log identifies subjects by their SHA-256. */
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
