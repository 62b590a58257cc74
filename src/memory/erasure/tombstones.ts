/**
 * Tombstones reject data of an erased subject from before its erasure, no matter how late it arrives
 * (docs/architecture/erasure.md). Writers of subject data hold the project's shared lock in their transaction and check
 * for tombstones after they've acquired it. An erasure holds the lock exclusively.
 *
 * Call times come from the processes and tombstone times from the database, so the clocks have to be synchronized, e.g.
 * with NTP.
 */
import type { SettledCall } from '../../core/call.ts';
import { redactSubject } from '../../core/redact-subject.ts';
import { hashSubject } from '../../core/subject.ts';
import type { Queries } from '../../db/database.ts';

/**
 * Returns the calls that we should store. If a tombstone rejects a call, we remove its text and subject, and add it to
 * the erasure's count of rejected calls.
 */
export async function redactErased(tx: Queries, calls: readonly SettledCall[]): Promise<readonly SettledCall[]> {
  const subjects = calls.flatMap(({ metadata: { projectId, memory } }) =>
    memory.subject === null ? [] : { projectId, subject: memory.subject },
  );
  const tombstones = await findTombstones(tx, subjects);
  if (tombstones.size === 0) return calls;
  const discarded = new Map<string, number>();
  const redacted = calls.map((call) => {
    const { projectId, memory, startedAt } = call.metadata;
    const tombstone = memory.subject === null ? undefined : tombstones.get(subjectKey({ projectId, subject: memory.subject }));
    if (!tombstone || startedAt > tombstone.erasedAt.getTime()) return call;
    discarded.set(tombstone.id, (discarded.get(tombstone.id) ?? 0) + 1);
    return redactSubject(call);
  });
  for (const [id, count] of discarded) {
    await tx.query(`update erasures set discarded = discarded + $2::bigint where id = $1::uuid`, [id, count]);
  }
  return redacted;
}

/** Records that we deleted files of the erased subjects, so that `deleteEmptyErasures` keeps these erasures. */
export async function markFilesDeleted(queries: Queries, erasures: readonly Pick<Tombstone, 'id'>[]): Promise<void> {
  await queries.query(
    `update erasures set deleted = jsonb_set(deleted, '{other}', to_jsonb(coalesce((deleted ->> 'other')::integer, 0) + 1))
      where id = any($1::uuid[])`,
    [erasures.map(({ id }) => id)],
  );
}

/** Checks whether any of these calls started before its subject was erased. */
export async function isAnyErased(queries: Queries, calls: readonly (ProjectSubject & { readonly startedAt: number })[]): Promise<boolean> {
  const tombstones = await findTombstones(queries, calls);
  return calls.some((call) => call.startedAt <= (tombstones.get(subjectKey(call))?.erasedAt.getTime() ?? -1));
}

/** Returns when each subject was last erased. A subject that was never erased is missing from the result. */
export async function findErasureTimes(tx: Queries, projectId: string, subjects: readonly string[]): Promise<ReadonlyMap<string, Date>> {
  const requested = subjects.map((subject) => ({ projectId, subject }));
  const tombstones = await findTombstones(tx, requested);
  return new Map(
    requested.flatMap((each) => {
      const tombstone = tombstones.get(subjectKey(each));
      return tombstone ? [[each.subject, tombstone.erasedAt] as const] : [];
    }),
  );
}

/**
 * Records that an import restored data of these subjects, which may be older than their erasures. Without this, an
 * erasure that is still running would find the data in its final check and would never end. Calls from before the
 * erasure are still rejected.
 */
export async function markRestored(tx: Queries, projectId: string, subjects: readonly string[]): Promise<void> {
  await tx.query(
    `update erasures set restored_at = clock_timestamp()
      where project_id = $1::uuid and subject_sha256 = any($2::bytea[]) and restored_at is null`,
    [projectId, subjects.map(hashSubject)],
  );
}

export interface Tombstone {
  readonly id: string;
  readonly projectId: string;
  readonly sha256: Buffer;
  readonly erasedAt: Date;
}

interface ProjectSubject {
  readonly projectId: string;
  readonly subject: string;
}

async function findTombstones(tx: Queries, subjects: readonly ProjectSubject[]): Promise<ReadonlyMap<string, Tombstone>> {
  if (subjects.length === 0) return new Map();
  const distinct = [...new Map(subjects.map((subject) => [subjectKey(subject), subject]))];
  const rows = await tx.query<Tombstone & { readonly rank: number }>(
    `select newest.id, requested.project_id as "projectId", requested.sha256, newest.erased_at as "erasedAt", requested.rank::integer
       from unnest($1::uuid[], $2::bytea[]) with ordinality as requested (project_id, sha256, rank)
      cross join lateral (
        select id, erased_at from erasures
         where project_id = requested.project_id and subject_sha256 = requested.sha256
         order by erased_at desc
         limit 1
      ) newest`,
    [distinct.map(([, { projectId }]) => projectId), distinct.map(([, { subject }]) => hashSubject(subject))],
  );
  return new Map(rows.map(({ rank, ...tombstone }) => [distinct[rank - 1]?.[0] ?? '', tombstone]));
}

function subjectKey({ projectId, subject }: ProjectSubject): string {
  return `${projectId} ${subject}`;
}
