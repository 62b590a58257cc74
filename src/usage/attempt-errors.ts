/** The reasons of failed attempts: how they are read, and how long they are kept. */
import { minIdAt } from '../core/ids.ts';
import type { Database } from '../db/database.ts';
import { batchSize } from '../db/row-batches.ts';

/** An `AttemptError`, null without one; of `attempts left join attempt_errors`. */
export const attemptErrorSql = `case when reason is not null then jsonb_build_object('reason', reason, 'type', type, 'code', code, 'message', message) end`;

/** A time before which errors are deleted; of one project, or of all if `projectId` is null. */
export interface ErrorPeriod {
  readonly projectId: string | null;
  readonly before: number;
}

/** Deletes a batch of the first period that has one. Returns its size, 0 when none is left. */
export async function deleteExpiredErrors(database: Database, periods: readonly ErrorPeriod[]): Promise<number> {
  for (const { projectId, before } of periods) {
    const project = projectId === null ? 'true' : 'project_id = $3::uuid';
    const rows = await database.query(
      // The id of a call begins with its time.
      `delete from attempt_errors where (call_id, n) in (
         select call_id, n from attempt_errors where ${project} and call_id < $1::uuid order by call_id limit $2::integer)
       returning 1`,
      [minIdAt(before), batchSize, ...(projectId === null ? [] : [projectId])],
    );
    if (rows.length > 0) return rows.length;
  }
  return 0;
}
