/** Asks again for the reading of conversations that nobody may be waiting for any more: Temporal lost its state, or came late (decisions 8). */
import type { Database } from '../../db/database.ts';
import { enqueue } from '../../db/outbox.ts';
import { toIdleTimerEntry } from './idle-timer.ts';

/** A statement on the embedded database holds up the event loop: slices of this size (decisions 1). */
const pageSize = 500;

/** Writes an outbox row for each conversation that is stored and not read. One whose workflow runs already is not started twice. */
export async function reenqueueIdleTimers(database: Database): Promise<void> {
  let after = '00000000-0000-0000-0000-000000000000';
  for (;;) {
    const last = await database.transaction(async (tx) => {
      const rows = await tx.query<{ id: string; projectId: string; opened: number }>(
        `select id, project_id as "projectId", opened from conversations where state = 'stored' and id > $1::uuid order by id limit $2::integer`,
        [after, pageSize],
      );
      await enqueue(tx, rows.map(toIdleTimerEntry));
      return rows.length < pageSize ? null : (rows.at(-1)?.id ?? null);
    });
    if (last === null) return;
    after = last;
  }
}
