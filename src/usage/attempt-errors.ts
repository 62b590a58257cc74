/** Reads why attempts failed, and deletes reasons that have expired. */
import { minIdAt } from '../core/ids.ts';
import type { Database } from '../db/database.ts';
import { batchSize } from '../db/row-batches.ts';

/** Selects an `AttemptError` as JSON from `attempts left join attempt_errors`, or null if the attempt has none. */
export const attemptErrorSql = `case when reason is not null then jsonb_build_object('reason', reason, 'type', type, 'code', code, 'message', message) end`;

/** Errors older than `before` have expired. If `projectId` is null, this applies to all projects. */
export interface ErrorPeriod {
  readonly projectId: string | null;
  readonly before: number;
}

/**
 * Deletes one batch of expired errors, all from the first period that has any. Returns how many it deleted, so 0 means
 * that there's nothing left to do.
 */
export async function deleteExpiredErrors(database: Database, periods: readonly ErrorPeriod[]): Promise<number> {
  for (const { projectId, before } of periods) {
    const project = projectId === null ? 'true' : 'project_id = $3::uuid';
    const rows = await database.query(
      // A call's id starts with a timestamp, so we can compare it with a time.
      `delete from attempt_errors where (call_id, n) in (
         select call_id, n from attempt_errors where ${project} and call_id < $1::uuid order by call_id limit $2::integer)
       returning 1`,
      [minIdAt(before), batchSize, ...(projectId === null ? [] : [projectId])],
    );
    if (rows.length > 0) return rows.length;
  }
  return 0;
}
