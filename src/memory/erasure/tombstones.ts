/**
 * The fence of an erasure (decisions 5): what is known of a subject from before it never comes back, however late it arrives. Whoever writes
 * something of a subject holds the project's lock shared in its transaction (`journal/batch-store.ts`, `items.ts`), and asks here after it
 * has the lock. An erasure holds it alone.
 *
 * Instants of calls are those of the processes, the fence is the database's: their clocks must agree, as those of hosts with a time
 * service do.
 */
import { createHash } from 'node:crypto';
import type { SettledCall } from '../../core/call.ts';
import { redactSubject } from '../../core/redact-subject.ts';
import type { Queries } from '../../db/database.ts';

/** As tables keep a subject that may not be read any more. */
export function hashSubject(subject: string): Buffer {
  return createHash('sha256').update(subject, 'utf8').digest();
}

/** The calls as they may be stored in `tx`: those that a fence holds back have neither text nor subject. The erasure counts them. */
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

/** Whether one of the calls is from before an erasure of its subject. */
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

interface Tombstone {
  readonly id: string;
  readonly projectId: string;
  readonly sha256: Buffer;
  readonly erasedAt: Date;
}

/** The newest of each subject that has one. */
async function findTombstones(
  tx: Queries,
  subjects: readonly { readonly projectId: string; readonly sha256: Buffer }[],
): Promise<Tombstone[]> {
  if (subjects.length === 0) return [];
  return tx.query<Tombstone>(
    `select found.id, wanted.project_id as "projectId", wanted.sha256, found.erased_at as "erasedAt"
       from unnest($1::uuid[], $2::bytea[]) as wanted (project_id, sha256)
      cross join lateral (
        select id, erased_at from erasures
         where project_id = wanted.project_id and subject_sha256 = wanted.sha256
         order by erased_at desc
         limit 1
      ) found`,
    [subjects.map(({ projectId }) => projectId), subjects.map(({ sha256 }) => sha256)],
  );
}

function subjectKey(projectId: string, sha256: Buffer): string {
  return `${projectId} ${sha256.toString('hex')}`;
}
