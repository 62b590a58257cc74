/**
 * Starts the workflow `idleConversations`, which closes a project's conversations once they're idle. A project has at
 * most one run at a time.
 *
 * Writers call `startIdleTimers` in their transaction while they hold the project's conversations lock. They don't
 * start another run while one is active, so a burst of conversations only costs one run. A run takes the same lock
 * before it ends, and only ends if it finds no open conversation.
 */
import type { Database, Queries } from '../../db/database.ts';
import { lockConversations } from '../../db/locks.ts';
import { enqueue, type OutboxEntry } from '../../db/outbox.ts';
import type { Conversation } from './working-set.ts';

/** Starts a run for each project that has opened a conversation and has no active run. */
export async function startIdleTimers(tx: Queries, opened: readonly Pick<Conversation, 'projectId' | 'trace'>[]): Promise<void> {
  const projectIds = [...new Set(opened.map(({ projectId }) => projectId))].sort();
  if (projectIds.length === 0) return;
  const idle = await tx.query<{ projectId: string }>(
    // Look for projects without an active run before the upsert, because an upsert would also lock the rows of active
    // runs.
    `select id as "projectId" from unnest($1::uuid[]) as id
      where not exists (
        select 1 from idle_timers
         where project_id = id and active
           and due_at between now() - interval '${overdueMinutes} minutes' and now() + interval '${maxIdleDays + 1} days')`,
    [projectIds],
  );
  if (idle.length === 0) return;
  const started = await tx.query<TimerRun>(
    // The API process doesn't know the worker's idle time, so set `due_at` to the maximum. The first check corrects it.
    `insert into idle_timers as timer (project_id, run, active, due_at)
     select id, 1, true, now() + interval '${maxIdleDays} day' from unnest($1::uuid[]) as id order by id
         on conflict (project_id) do update set run = timer.run + 1, active = true, due_at = excluded.due_at
     returning project_id as "projectId", run`,
    [idle.map(({ projectId }) => projectId)],
  );
  // If calls of the project were sampled, its new run continues the trace of the first one.
  const traces = new Map(opened.toReversed().flatMap(({ projectId, trace }) => (trace === undefined ? [] : [[projectId, trace] as const])));
  const entries = started.map((run) => ({ ...toEntry(run), trace: traces.get(run.projectId) }));
  await enqueue(tx, entries);
}

/**
 * If a check is this many minutes late, we assume that Temporal has lost the run and start another one. This leaves
 * enough time for a run to resume after an outage of Temporal. A second run would do no harm, because it only repeats
 * the checks.
 */
const overdueMinutes = 15;
/**
 * The maximum idle time. If a check is due much later, an older version has scheduled it after a turn in the far
 * future, and we start another run, too.
 */
const maxIdleDays = 1;

interface TimerRun {
  readonly projectId: string;
  readonly run: number;
}

/** The workflow id contains the run number, so enqueueing a run that's already in progress does nothing. */
function toEntry({ projectId, run }: TimerRun): OutboxEntry {
  const input = { project_id: projectId, run };
  return { workflow: 'idleConversations', workflowId: `conversations/${projectId}/${run}`, input, projectId };
}

/**
 * Enqueues active runs again in case Temporal has lost its state. Also starts a run for every project that has open
 * conversations but no active run. Older versions started a run for each conversation, and Temporal may have lost those
 * as well.
 */
export async function reenqueueIdleTimers(database: Database): Promise<void> {
  const active = await database.query<TimerRun>(`select project_id as "projectId", run from idle_timers where active order by project_id`);
  await database.transaction((tx) => enqueue(tx, active.map(toEntry)));
  const waiting = await database.query<{ projectId: string }>(
    `select distinct project_id as "projectId" from conversations where state = 'stored'
        and project_id not in (select project_id from idle_timers where active)`,
  );
  for (const { projectId } of waiting)
    await database.transaction(async (tx) => {
      await lockConversations(tx, projectId);
      await startIdleTimers(tx, [{ projectId }]);
    });
}
