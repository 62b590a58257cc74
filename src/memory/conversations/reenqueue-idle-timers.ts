import type { Database } from '../../db/database.ts';
import { enqueue } from '../../db/outbox.ts';
import { batchSize } from '../../db/row-batches.ts';
import { toIdleTimerEntry } from './idle-timer.ts';

/** Enqueues the idle timers of all open conversations again, because Temporal may have lost its state. Running timers are not affected. */
export async function reenqueueIdleTimers(database: Database): Promise<void> {
  let after = '00000000-0000-0000-0000-000000000000';
  for (;;) {
    const last = await database.transaction(async (tx) => {
      const rows = await tx.query<{ id: string; projectId: string; opened: number }>(
        `select id, project_id as "projectId", opened from conversations where state = 'stored' and id > $1::uuid order by id limit $2::integer`,
        [after, batchSize],
      );
      await enqueue(tx, rows.map(toIdleTimerEntry));
      return rows.length < batchSize ? null : (rows.at(-1)?.id ?? null);
    });
    if (last === null) return;
    after = last;
  }
}
