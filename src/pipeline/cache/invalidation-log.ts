/**
 * What was erased when: a call that began before the erasure may end after it, and what it brings must not be kept. Bounded; the oldest
 * marks go first, long after the calls they are for.
 */

export interface DropMarks {
  /** `subject`: its SHA-256; null for the whole project. */
  add(projectId: string, subject: string | null, now: number): void;
  isDropped(projectId: string, subjects: readonly string[], startedAt: number): boolean;
}

const mostMarks = 10_000;

export function createDropMarks(): DropMarks {
  const marks = new Map<string, number>();

  const isMarked = (name: string, startedAt: number): boolean => {
    const markedAt = marks.get(name);
    return markedAt !== undefined && markedAt >= startedAt;
  };

  return {
    add(projectId, subject, now) {
      const name = nameOf(projectId, subject);
      marks.delete(name);
      marks.set(name, now);
      if (marks.size <= mostMarks) return;
      const oldest = marks.keys().next();
      if (!oldest.done) marks.delete(oldest.value);
    },
    isDropped: (projectId, subjects, startedAt) =>
      marks.size > 0 && [null, ...subjects].some((subject) => isMarked(nameOf(projectId, subject), startedAt)),
  };
}

function nameOf(projectId: string, subject: string | null): string {
  return `${projectId} ${subject ?? ''}`;
}
