/**
 * Starts the workflow `idleConversations`, which reads the conversations of a project once they are idle, at most one run per project.
 *
 * Writers call `startIdleTimers` in their transaction and hold the lock of the project's conversations. While a run is active they start no
 * other, so a burst of conversations costs Temporal one run. A run ends only after it found no open conversation under the same lock.
 */
import type { Database, Queries } from '../../db/database.ts';
import { lockConversations } from '../../db/locks.ts';
import { enqueue, type OutboxEntry } from '../../db/outbox.ts';
import type { Conversation } from './working-set.ts';

/** Starts a run for each project of these conversations, unless one is active. */
export async function startIdleTimers(tx: Queries, opened: readonly Pick<Conversation, 'projectId' | 'trace'>[]): Promise<void> {
  const projectIds = [...new Set(opened.map(({ projectId }) => projectId))].sort();
  if (projectIds.length === 0) return;
  const idle = await tx.query<{ projectId: string }>(
    // A read first, because an upsert would lock the rows of active runs, too.
    `select id as "projectId" from unnest($1::uuid[]) as id
      where not exists (
        select 1 from idle_timers where project_id = id and active and due_at > now() - interval '${overdueMinutes} minutes')`,
    [projectIds],
  );
  if (idle.length === 0) return;
  const started = await tx.query<TimerRun>(
    // No process knows the idle time of the worker here, which is a day at most. The first check sets the time of the next.
    `insert into idle_timers as timer (project_id, run, active, due_at)
     select id, 1, true, now() + interval '1 day' from unnest($1::uuid[]) as id order by id
         on conflict (project_id) do update set run = timer.run + 1, active = true, due_at = excluded.due_at
     returning project_id as "projectId", run`,
    [idle.map(({ projectId }) => projectId)],
  );
  // The run continues the trace of the first sampled call.
  const traces = new Map(opened.toReversed().flatMap(({ projectId, trace }) => (trace === undefined ? [] : [[projectId, trace] as const])));
  await enqueue(
    tx,
    started.map((run) => ({ ...toEntry(run), trace: traces.get(run.projectId) })),
  );
}

/** Long enough for an outage of Temporal, after which the run continues. A second run only repeats its checks. */
const overdueMinutes = 15;

interface TimerRun {
  readonly projectId: string;
  readonly run: number;
}

/** The workflow id contains the number of the run, so enqueueing it again while the workflow runs has no effect. */
function toEntry({ projectId, run }: TimerRun): OutboxEntry {
  const input = { project_id: projectId, run };
  return { workflow: 'idleConversations', workflowId: `conversations/${projectId}/${run}`, input, projectId };
}

/**
 * Enqueues active runs again, because Temporal may have lost its state, and starts a run for each project with open conversations that has
 * none: an older version has a run per conversation, which does not survive the loss of Temporal's state either.
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
