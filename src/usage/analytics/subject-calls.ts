/**
 * Reads an end user's calls. Each query uses an index and reads a limited number of rows, no matter how many calls
 * there are.
 */
import type { Queries } from '../../db/database.ts';
import { isErrorSql } from './call-filter.ts';
import type { CallSummary } from './call-list.ts';

export interface SubjectCalls {
  /** Counting stops at `maxCounted`. If there are more calls, all figures are for the newest ones. */
  readonly calls: number;
  readonly isMore: boolean;
  readonly errors: number;
  readonly costNanos: bigint;
  readonly unpriced: number;
  /** When the first and the last of these calls started. Null if there are none. */
  readonly firstAt: Date | null;
  readonly lastAt: Date | null;
  readonly newest: readonly SubjectCall[];
}

export type SubjectCall = Pick<
  CallSummary,
  'id' | 'startedAt' | 'source' | 'requestedModel' | 'model' | 'status' | 'outcome' | 'costNanos'
>;

const maxCounted = 1_000;
const shown = 5;

const ofSubject = `c.project_id = $1::uuid and c.subject_sha256 = decode($2::text, 'hex')`;

/** `sha256` is the hash of the end user in hex. */
export async function readSubjectCalls(queries: Queries, projectId: string, sha256: string): Promise<SubjectCalls> {
  const [figures] = await queries.query<Omit<SubjectCalls, 'costNanos' | 'isMore' | 'newest'> & { costNanos: string; found: number }>(
    `with newest as (
       select c.id, c.started_at, c.outcome, c.cost_nanos from calls c where ${ofSubject} order by c.id desc limit $3::integer + 1
     ), counted as (
       select * from newest order by id desc limit $3::integer
     )
     select (select count(*)::integer from newest) as found, count(*)::integer as calls,
            count(*) filter (where ${isErrorSql('counted')})::integer as errors, coalesce(sum(cost_nanos), 0)::text as "costNanos",
            count(*) filter (where cost_nanos is null)::integer as unpriced, max(started_at) as "lastAt",
            (select c.started_at from calls c where ${ofSubject} order by c.id limit 1) as "firstAt"
       from counted`,
    [projectId, sha256, maxCounted],
  );
  const newest = await queries.query<SubjectCall>(
    `select c.id, c.started_at as "startedAt", c.source, c.model_asked as "requestedModel", c.model, c.status, c.outcome,
            c.cost_nanos as "costNanos"
       from calls c where ${ofSubject} order by c.id desc limit $3::integer`,
    [projectId, sha256, shown],
  );
  const { found = 0, costNanos = '0', calls = 0, errors = 0, unpriced = 0, firstAt = null, lastAt = null } = figures ?? {};
  return { calls, isMore: found > calls, errors, costNanos: BigInt(costNanos), unpriced, firstAt, lastAt, newest };
}

export interface SubjectUse {
  readonly calls: number;
  readonly isMore: boolean;
  readonly lastAt: Date | null;
}

const maxListed = 100;

/** Returns each end user's number of calls and last call. The keys are hashes of the end users in hex. */
export async function readSubjectUse(
  queries: Queries,
  projectId: string,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, SubjectUse>> {
  const rows = await queries.query<{ hash: string; found: number; lastAt: Date | null }>(
    `select given.hash, calls.found, calls.last as "lastAt"
       from unnest($2::text[]) as given (hash)
      cross join lateral (
        select count(*)::integer as found, max(started_at) as last from (
          select c.started_at from calls c
           where c.project_id = $1::uuid and c.subject_sha256 = decode(given.hash, 'hex') order by c.id desc limit $3::integer + 1
        ) as counted) as calls`,
    [projectId, hashes, maxListed],
  );
  return new Map(rows.map(({ hash, found, lastAt }) => [hash, { calls: Math.min(found, maxListed), isMore: found > maxListed, lastAt }]));
}
