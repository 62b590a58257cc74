import { minIdAt } from '../core/ids.ts';
import type { Queries } from '../db/database.ts';
import { batchSize } from '../db/row-batches.ts';

/** Selects an `AttemptError` as JSON from `attempts left join attempt_errors`, or null if there is none. */
export const attemptErrorSql = `case when reason is not null then jsonb_build_object('reason', reason, 'type', type, 'code', code, 'message', message) end`;

/** Errors older than `before` have expired. A `projectId` of null stands for all projects. */
export interface ErrorPeriod {
  readonly projectId: string | null;
  readonly before: number;
}

/** Deletes a batch of expired errors and returns how many it has deleted. Returns 0 if there's nothing left to do. */
export async function deleteExpiredErrors(queries: Queries, { projectId, before }: ErrorPeriod): Promise<number> {
  const project = projectId === null ? 'true' : 'project_id = $3::uuid';
  const rows = await queries.query(
    // Call ids start with a timestamp, so we can compare them with a time.
    `delete from attempt_errors where (call_id, n) in (
       select call_id, n from attempt_errors where ${project} and call_id < $1::uuid order by call_id limit $2::integer)
     returning 1`,
    [minIdAt(before), batchSize, ...(projectId === null ? [] : [projectId])],
  );
  return rows.length;
}
