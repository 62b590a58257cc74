/**
 * Times of erasures: a call that began before an erasure and ends after it must not store its response. Bounded; the oldest entries are
 * evicted first, long after the calls that they affect.
 */
import { LRUCache } from 'lru-cache';

export interface InvalidationLog {
  /** `subject`: its SHA-256. */
  record(projectId: string, subject: string, now: number): void;
  isInvalidated(projectId: string, subjects: readonly string[], startedAt: number): boolean;
}

export function createInvalidationLog(): InvalidationLog {
  const invalidatedAt = new LRUCache<string, number>({ max: 10_000 });

  return {
    record: (projectId, subject, now) => {
      invalidatedAt.set(entryKey(projectId, subject), now);
    },
    isInvalidated: (projectId, subjects, startedAt) =>
      subjects.some((subject) => (invalidatedAt.peek(entryKey(projectId, subject)) ?? Number.NEGATIVE_INFINITY) >= startedAt),
  };
}

function entryKey(projectId: string, subject: string): string {
  return `${projectId} ${subject}`;
}
