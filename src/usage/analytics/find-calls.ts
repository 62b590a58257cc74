/**
 * Finds calls by any kind of id that somebody may look for. Each lookup takes a few steps in an index, no matter how
 * many calls the project has.
 */
import { isUuid } from '../../core/ids.ts';
import type { Queries } from '../../db/database.ts';
import { findRefused, type RefusedCallRow } from '../refusals/read-refusals.ts';
import { createParameters, subjectHash } from './call-filter.ts';

export interface FoundCall {
  readonly id: string;
  readonly startedAt: Date;
  readonly requestedModel: string;
  readonly model: string | null;
  readonly status: number;
}

export interface FoundCalls {
  /** Calls that have this id, or whose vendor has returned it as its request id. */
  readonly calls: readonly FoundCall[];
  /** Null if there's no recorded refusal with this id. */
  readonly refused: RefusedCallRow | null;
  /** When the latest call of the task with this name started. Null if there's no such task. */
  readonly taskAt: Date | null;
  /** When the latest call about the end user with this name started. Null if there's no such call. */
  readonly subjectAt: Date | null;
}

/**
 * Limits how many calls we return for a vendor's request id. There should never be more than one, because vendors
 * shouldn't reuse ids.
 */
const maxCalls = 10;
/** We don't search for longer texts. Ids come from HTTP headers, and no header can be longer than this. */
const maxLength = 16_384;

export async function findCalls(queries: Queries, projectId: string, text: string): Promise<FoundCalls> {
  if (text === '' || text.length > maxLength || /[\0\p{Cs}]/u.test(text))
    return { calls: [], refused: null, taskAt: null, subjectAt: null };
  const columns = 'c.id, c.started_at as "startedAt", c.model_asked as "requestedModel", c.model, c.status';
  const latest = async (condition: string, values: readonly unknown[]): Promise<Date | null> => {
    const [row] = await queries.query<{ startedAt: Date }>(
      `select started_at as "startedAt" from calls where project_id = $1::uuid and ${condition} order by id desc limit 1`,
      [projectId, ...values],
    );
    return row?.startedAt ?? null;
  };
  const subject = createParameters();
  subject.add(projectId);
  const [byId, refused, byRequest, taskAt, subjectAt] = await Promise.all([
    isUuid(text)
      ? queries.query<FoundCall>(`select ${columns} from calls c where c.project_id = $1::uuid and c.id = $2::uuid`, [projectId, text])
      : [],
    isUuid(text) ? findRefused(queries, projectId, text) : null,
    queries.query<FoundCall>(
      `select ${columns}
         from (select distinct call_id from attempts where request_id = $2::text order by call_id desc limit 100) as found
         join calls c on c.id = found.call_id
        where c.project_id = $1::uuid
        order by c.id desc limit $3::integer`,
      [projectId, text, maxCalls],
    ),
    latest('task_id = $2::text', [text]),
    latest(`subject_sha256 = ${subjectHash(text, subject)}`, subject.values.slice(1)),
  ]);
  return { calls: [...byId, ...byRequest], refused, taskAt, subjectAt };
}
