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

/** Starts a run for each project of these conversations that doesn't have an active one. */
export async function startIdleTimers(tx: Queries, opened: readonly Pick<Conversation, 'projectId' | 'trace'>[]): Promise<void> {
  const projectIds = [...new Set(opened.map(({ projectId }) => projectId))].sort();
  if (projectIds.length === 0) return;
  const idle = await tx.query<{ projectId: string }>(
    // Select first, because an upsert would also lock the rows of active runs.
    `select id as "projectId" from unnest($1::uuid[]) as id
      where not exists (
        select 1 from idle_timers where project_id = id and active and due_at > now() - interval '${overdueMinutes} minutes')`,
    [projectIds],
  );
  if (idle.length === 0) return;
  const started = await tx.query<TimerRun>(
    // The API process doesn't know the worker's idle time, so we assume the maximum of a day. The first check sets the
    // actual time.
    `insert into idle_timers as timer (project_id, run, active, due_at)
     select id, 1, true, now() + interval '1 day' from unnest($1::uuid[]) as id order by id
         on conflict (project_id) do update set run = timer.run + 1, active = true, due_at = excluded.due_at
     returning project_id as "projectId", run`,
    [idle.map(({ projectId }) => projectId)],
  );
  // Each run continues the trace of the project's first sampled call.
  const traces = new Map(opened.toReversed().flatMap(({ projectId, trace }) => (trace === undefined ? [] : [[projectId, trace] as const])));
  await enqueue(
    tx,
    started.map((run) => ({ ...toEntry(run), trace: traces.get(run.projectId) })),
  );
}

/**
 * Long enough to sit out an outage of Temporal, after which the run resumes. If we start a second run anyway, it only
 * repeats the checks.
 */
const overdueMinutes = 15;

interface TimerRun {
  readonly projectId: string;
  readonly run: number;
}

/** The workflow id includes the run number, so enqueueing a run that is already in progress has no effect. */
function toEntry({ projectId, run }: TimerRun): OutboxEntry {
  const input = { project_id: projectId, run };
  return { workflow: 'idleConversations', workflowId: `conversations/${projectId}/${run}`, input, projectId };
}

/**
 * Enqueues active runs again in case Temporal has lost its state. Also starts a run for every project that has open
 * conversations but no run. Older versions have one run per conversation instead, and those would be lost too.
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
