/**
 * The dispatcher's SQL statements for the `outbox` table. The dispatcher claims rows, starts their workflows, and then
 * deletes, postpones or releases the rows.
 *
 * Each statement is a transaction of its own. We can't keep one open while we wait for Temporal, because the embedded
 * database has only one session.
 */

import { SpanKind } from '@opentelemetry/api';
import type { Database, Queries } from '../../db/database.ts';
import type { OutboxEntry, OutboxInput } from '../../db/outbox.ts';
import type { Logger } from '../../observability/logger.ts';
import { attributes, spanNames } from '../../observability/trace-names.ts';
import { continueTrace } from '../../observability/tracing.ts';

/** Thrown by `start` if retrying this row won't help. Other rows aren't affected. */
export class PermanentStartError extends Error {
  override readonly name = 'PermanentStartError';
}

export interface OutboxRow extends OutboxEntry {
  readonly id: number;
  /** The slug of the row's project. Null if the project was deleted, or if the work doesn't belong to a project. */
  readonly projectSlug: string | null;
  /** Delivery attempts, including this one. */
  readonly attempts: number;
  readonly waitedMs: number;
}

const batchSize = 100;
/**
 * The dev server handles one transaction at a time. With more concurrent starts, the worker's requests would have to
 * wait too long.
 */
const maxConcurrentStarts = 5;
/** Rejected rows are retried after 2, 4, 8 … seconds, and hourly after this many attempts. */
const hourlyAfterAttempts = 11;
const maxLoggedIds = 20;

/** We claim this many rows of each project before we claim the oldest of all other rows. */
const turnsPerProject = 5;

const isDueSql = `next_try_at <= now()
  and not exists (select 1 from outbox earlier where earlier.workflow_id = due.workflow_id and earlier.id < due.id)`;

const nextInTurnSql = (condition: string): string => `
  select id, next_try_at, row_number() over (order by next_try_at, id) as turn
    from (select id, next_try_at from outbox due where ${condition} and ${isDueSql} order by next_try_at, id limit ${turnsPerProject}) next`;

/**
 * Claims due rows for 30 seconds. Projects take turns, because starting a workflow takes a while, and somebody could
 * write thousands of rows at once. If a workflow id has several rows, we only claim the oldest one, so that they stay
 * in order. We skip rows that another process is claiming at the same time.
 *
 * We find the projects by jumping from one to the next in the index, because reading all rows would be slow after an
 * outage.
 */
export async function claimRows(database: Database): Promise<OutboxRow[]> {
  const rows = await database.query<StoredRow>(
    `with recursive owners as (
       (select project_id from outbox where project_id is not null order by project_id limit 1)
       union all
       select (select later.project_id from outbox later where later.project_id > owners.project_id order by later.project_id limit 1)
         from owners where owners.project_id is not null
     ), candidates as (
       select next.* from owners cross join lateral (${nextInTurnSql('due.project_id = owners.project_id')}) next
       union all
       (${nextInTurnSql('due.project_id is null')})
       union all
       (select id, next_try_at, null from outbox due where ${isDueSql} order by next_try_at, id limit 4 * $1::integer)
     )
     update outbox
     set next_try_at = now() + interval '30 seconds', attempts = attempts + 1
     where id in (
       select due.id
         from (select id, min(turn) as turn from candidates group by id) candidate
         join outbox due on due.id = candidate.id and due.next_try_at <= now()
        order by candidate.turn nulls last, due.next_try_at, due.id
        limit $1::integer
        for update of due skip locked)
     returning id, workflow, workflow_id as "workflowId", input, attempts, project_id as "projectId", trace,
       (select slug from projects where projects.id = outbox.project_id) as "projectSlug", signal, signal_input as "signalInput",
       (extract(epoch from now() - created_at) * 1000)::float8 as "waitedMs"`,
    [batchSize],
  );
  return rows.sort((left, right) => left.id - right.id).map(toOutboxRow);
}

interface StoredRow extends Pick<OutboxRow, 'id' | 'workflow' | 'workflowId' | 'input' | 'attempts' | 'waitedMs' | 'projectSlug'> {
  readonly projectId: string | null;
  readonly signal: string | null;
  readonly signalInput: OutboxInput | null;
  readonly trace: string | null;
}

function toOutboxRow({ projectId, signal, signalInput, trace, ...row }: StoredRow): OutboxRow {
  return {
    ...row,
    ...(projectId !== null && { projectId }),
    ...(trace !== null && { trace }),
    ...(signal !== null && { signal: { name: signal, input: signalInput ?? {} } }),
  };
}

/** Returns the age of the oldest due row in milliseconds, or 0 if no row is due. Postponed rows aren't due. */
export async function measureLag(database: Queries): Promise<number> {
  const [oldest] = await database.query<{ waitedMs: number }>(
    `select (extract(epoch from now() - created_at) * 1000)::float8 as "waitedMs"
       from outbox where next_try_at <= now() + interval '30 seconds' order by id limit 1`,
  );
  return Math.max(0, oldest?.waitedMs ?? 0);
}

/**
 * Starts the workflows of claimed rows, then deletes, postpones or releases each row. Returns the error if Temporal is
 * unavailable, and null otherwise.
 */
export async function deliverRows(
  rows: readonly OutboxRow[],
  { database, start, logger }: { database: Database; start: (row: OutboxRow) => Promise<void>; logger: Logger },
): Promise<{ outage: unknown } | null> {
  const started: number[] = [];
  const rejected: number[] = [];
  const undelivered: number[] = [];
  let outage: { outage: unknown } | null = null;
  const queue = rows.values();
  await Promise.all(Array.from({ length: maxConcurrentStarts }, deliverNext));
  if (started.length > 0) await database.query('delete from outbox where id = any($1::bigint[])', [started]);
  if (rejected.length > 0) await database.query(postponeRejected, [rejected]);
  if (undelivered.length > 0) await database.query(releaseClaims, [undelivered]);
  return outage;

  async function deliverNext(): Promise<void> {
    for (const row of queue) {
      if (outage) {
        undelivered.push(row.id);
        continue;
      }
      try {
        await continueTrace(row.trace, toSpan(row), () => start(row));
        started.push(row.id);
      } catch (error) {
        if (error instanceof PermanentStartError) {
          rejected.push(row.id);
          logRejection(logger, row, error);
        } else {
          undelivered.push(row.id);
          outage = { outage: error };
        }
      }
    }
  }
}

function toSpan({ workflow, workflowId, attempts }: OutboxRow) {
  const given = { [attributes.workflowId]: workflowId, [attributes.tries]: attempts };
  return { name: `${spanNames.outbox} ${workflow}`, kind: SpanKind.PRODUCER, attributes: given };
}

/** Logs the first rejection of a row and then one per hour. The rejections in between are only seconds apart. */
function logRejection(logger: Logger, { id, workflow, workflowId, projectSlug, attempts }: OutboxRow, error: unknown): void {
  if (attempts > 1 && attempts <= hourlyAfterAttempts) return;
  const project = projectSlug === null ? {} : { project: projectSlug };
  logger.error({ err: error, row: id, workflow, workflowId, ...project, attempts }, 'Temporal rejected the start of a workflow; retrying');
}

/**
 * Deletes rows that have been rejected for 30 days, and returns how many there were. If their work is unfinished,
 * `reenqueueUnfinished` writes new rows for it. We never delete rows that are only waiting for Temporal to come back.
 */
export async function deleteUndeliverableRows({ database, logger }: { database: Database; logger: Logger }): Promise<number> {
  const rows = await database.query<{ id: number; workflowId: string }>(
    `delete from outbox where id in (
       select id from outbox where attempts >= 100 and created_at < now() - interval '30 days' order by id limit 500 for update skip locked)
     returning id, workflow_id as "workflowId"`,
  );
  const workflowIds = rows.slice(0, maxLoggedIds).map(({ workflowId }) => workflowId);
  if (rows.length > 0) logger.error({ rows: rows.length, workflowIds }, 'outbox rows deleted after being rejected for 30 days');
  return rows.length;
}

/**
 * Postpones rejected rows with a delay that grows from seconds to an hour. They're worth retrying, because a newer
 * version of the gateway may be able to start them.
 */
const postponeRejected = `update outbox set next_try_at = now() + least(interval '1 hour', interval '1 second' * power(2, least(attempts, 12)))
  where id = any($1::bigint[])`;

const releaseClaims = 'update outbox set next_try_at = now(), attempts = greatest(0, attempts - 1) where id = any($1::bigint[])';

/** Counts the due rows and the rejected rows for metrics, up to `outboxCountLimit`. */
export async function countRows(queries: Queries): Promise<{ readonly due: number; readonly rejected: number }> {
  const [row] = await queries.query<{ due: number; rejected: number }>(
    `select (count(*) filter (where next_try_at <= now() + interval '30 seconds'))::integer as due,
            (count(*) filter (where next_try_at > now() + interval '30 seconds'))::integer as rejected
       from (select next_try_at from outbox limit $1::integer) as counted`,
    [outboxCountLimit],
  );
  return row ?? { due: 0, rejected: 0 };
}

/** We stop counting at this number. After weeks without Temporal, it would be slow to count all rows of the outbox. */
const outboxCountLimit = 100_000;
