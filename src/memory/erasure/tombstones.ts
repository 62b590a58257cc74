/**
 * Tombstones reject data of an erased subject from before its erasure, however late it arrives (docs/architecture/erasure.md). Writers of
 * subject data hold the project's shared lock in their transaction and check here after acquiring it; an erasure holds the lock exclusively.
 *
 * Call times come from the processes and tombstone times from the database, so clocks must be synchronized, as with NTP.
 */
import type { SettledCall } from '../../core/call.ts';
import { redactSubject } from '../../core/redact-subject.ts';
import { hashSubject } from '../../core/subject.ts';
import type { Queries } from '../../db/database.ts';

/** Returns the calls to store: those rejected by a tombstone lose text and subject, and are counted on their erasure. */
export async function redactErased(tx: Queries, calls: readonly SettledCall[]): Promise<readonly SettledCall[]> {
  const subjects = new Map<string, { projectId: string; sha256: Buffer }>();
  for (const { facts } of calls) {
    if (facts.memory.subject === null) continue;
    subjects.set(`${facts.projectId} ${facts.memory.subject}`, {
      projectId: facts.projectId,
      sha256: hashSubject(facts.memory.subject),
    });
  }
  const tombstones = await findTombstones(tx, [...subjects.values()]);
  if (tombstones.length === 0) return calls;
  const tombstoneBySubject = new Map(tombstones.map((tombstone) => [subjectKey(tombstone.projectId, tombstone.sha256), tombstone]));
  const discarded = new Map<string, number>();
  const redacted = calls.map((call) => {
    const { projectId, memory, startedAt } = call.facts;
    const tombstone = memory.subject === null ? undefined : tombstoneBySubject.get(subjectKey(projectId, hashSubject(memory.subject)));
    if (!tombstone || startedAt > tombstone.erasedAt.getTime()) return call;
    discarded.set(tombstone.id, (discarded.get(tombstone.id) ?? 0) + 1);
    return redactSubject(call);
  });
  for (const [id, count] of discarded) {
    await tx.query(`update erasures set discarded = discarded + $2::bigint where id = $1::uuid`, [id, count]);
  }
  return redacted;
}

/** Whether a call started before an erasure of its subject. */
export async function isAnyErased(
  queries: Queries,
  calls: readonly { readonly projectId: string; readonly subject: string; readonly startedAt: number }[],
): Promise<boolean> {
  const tombstones = await findTombstones(
    queries,
    calls.map(({ projectId, subject }) => ({ projectId, sha256: hashSubject(subject) })),
  );
  const erasedAt = new Map(
    tombstones.map((tombstone) => [subjectKey(tombstone.projectId, tombstone.sha256), tombstone.erasedAt.getTime()]),
  );
  return calls.some(({ projectId, subject, startedAt }) => startedAt <= (erasedAt.get(subjectKey(projectId, hashSubject(subject))) ?? -1));
}

export interface Tombstone {
  readonly id: string;
  readonly projectId: string;
  readonly sha256: Buffer;
  readonly erasedAt: Date;
}

/** The newest tombstone of each subject that has one. */
async function findTombstones(
  tx: Queries,
  subjects: readonly { readonly projectId: string; readonly sha256: Buffer }[],
): Promise<Tombstone[]> {
  if (subjects.length === 0) return [];
  return tx.query<Tombstone>(
    `select newest.id, requested.project_id as "projectId", requested.sha256, newest.erased_at as "erasedAt"
       from unnest($1::uuid[], $2::bytea[]) as requested (project_id, sha256)
      cross join lateral (
        select id, erased_at from erasures
         where project_id = requested.project_id and subject_sha256 = requested.sha256
         order by erased_at desc
         limit 1
      ) newest`,
    [subjects.map(({ projectId }) => projectId), subjects.map(({ sha256 }) => sha256)],
  );
}

function subjectKey(projectId: string, sha256: Buffer): string {
  return `${projectId} ${sha256.toString('hex')}`;
}
