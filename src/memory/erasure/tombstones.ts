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
import { forgetSubject } from '../../core/redact-subject.ts';
import type { Queries } from '../../db/database.ts';

/** As tables keep a subject that may not be read any more. */
export function sha256OfSubject(subject: string): Buffer {
  return createHash('sha256').update(subject, 'utf8').digest();
}

/** The calls as they may be stored in `tx`: those that a fence holds back have neither text nor subject. The erasure counts them. */
export async function discardErased(tx: Queries, calls: readonly SettledCall[]): Promise<readonly SettledCall[]> {
  const named = new Map<string, { projectId: string; sha256: Buffer }>();
  for (const { facts } of calls) {
    if (facts.memory.subject === null) continue;
    named.set(`${facts.projectId} ${facts.memory.subject}`, {
      projectId: facts.projectId,
      sha256: sha256OfSubject(facts.memory.subject),
    });
  }
  const fences = await findFences(tx, [...named.values()]);
  if (fences.length === 0) return calls;
  const fenceOf = new Map(fences.map((fence) => [nameOf(fence.projectId, fence.sha256), fence]));
  const discarded = new Map<string, number>();
  const kept = calls.map((call) => {
    const { projectId, memory, startedAt } = call.facts;
    const fence = memory.subject === null ? undefined : fenceOf.get(nameOf(projectId, sha256OfSubject(memory.subject)));
    if (!fence || startedAt > fence.erasedAt.getTime()) return call;
    discarded.set(fence.id, (discarded.get(fence.id) ?? 0) + 1);
    return forgetSubject(call);
  });
  for (const [id, count] of discarded) {
    await tx.query(`update erasures set discarded = discarded + $2::bigint where id = $1::uuid`, [id, count]);
  }
  return kept;
}

/** Whether one of the calls is from before an erasure of its subject. */
export async function isAnyErased(
  queries: Queries,
  calls: readonly { readonly projectId: string; readonly subject: string; readonly startedAt: number }[],
): Promise<boolean> {
  const fences = await findFences(
    queries,
    calls.map(({ projectId, subject }) => ({ projectId, sha256: sha256OfSubject(subject) })),
  );
  const erasedAt = new Map(fences.map((fence) => [nameOf(fence.projectId, fence.sha256), fence.erasedAt.getTime()]));
  return calls.some(({ projectId, subject, startedAt }) => startedAt <= (erasedAt.get(nameOf(projectId, sha256OfSubject(subject))) ?? -1));
}

interface Fence {
  readonly id: string;
  readonly projectId: string;
  readonly sha256: Buffer;
  readonly erasedAt: Date;
}

/** The newest of each subject that has one. */
async function findFences(tx: Queries, subjects: readonly { readonly projectId: string; readonly sha256: Buffer }[]): Promise<Fence[]> {
  if (subjects.length === 0) return [];
  return tx.query<Fence>(
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

function nameOf(projectId: string, sha256: Buffer): string {
  return `${projectId} ${sha256.toString('hex')}`;
}
