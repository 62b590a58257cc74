/**
 * What was erased when: a call that began before the erasure may end after it, and what it brings must not be kept. Bounded; the oldest
 * marks go first, long after the calls they are for.
 */

export interface InvalidationLog {
  /** `subject`: its SHA-256; null for the whole project. */
  record(projectId: string, subject: string | null, now: number): void;
  isInvalidated(projectId: string, subjects: readonly string[], startedAt: number): boolean;
}

const maxEntries = 10_000;

export function createInvalidationLog(): InvalidationLog {
  const entries = new Map<string, number>();

  const wasInvalidatedSince = (key: string, startedAt: number): boolean => {
    const invalidatedAt = entries.get(key);
    return invalidatedAt !== undefined && invalidatedAt >= startedAt;
  };

  return {
    record(projectId, subject, now) {
      const key = entryKey(projectId, subject);
      entries.delete(key);
      entries.set(key, now);
      if (entries.size <= maxEntries) return;
      const oldest = entries.keys().next();
      if (!oldest.done) entries.delete(oldest.value);
    },
    isInvalidated: (projectId, subjects, startedAt) =>
      entries.size > 0 && [null, ...subjects].some((subject) => wasInvalidatedSince(entryKey(projectId, subject), startedAt)),
  };
}

function entryKey(projectId: string, subject: string | null): string {
  return `${projectId} ${subject ?? ''}`;
}
