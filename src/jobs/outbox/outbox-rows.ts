/**
 * The dispatcher's hold on the table `outbox`: claiming rows, starting their workflows, and settling what became of each.
 *
 * Each statement stands alone: on the embedded database a transaction must not wait for anything but SQL (decisions 1), and Temporal is
 * asked between them.
 */

import { errorSummary } from '../../core/error-messages.ts';
import type { Database } from '../../db/database.ts';
import type { OutboxEntry, OutboxInput } from '../../db/outbox.ts';
import type { Logger } from '../../observability/logger.ts';

/** Thrown by `start` when this entry cannot be started however often it is tried; other entries are not concerned. */
export class PermanentStartError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StartRefused';
  }
}

export interface OutboxRow extends OutboxEntry {
  readonly id: number;
  /** How often it was tried, this time included. */
  readonly attempts: number;
  /** For how long it has been there. */
  readonly waitedMs: number;
}

const batchSize = 100;
/** A server whose database takes one transaction at a time gives each asker a turn: with more of these the workers' few requests would starve. */
const maxConcurrentStarts = 5;

/**
 * Takes rows that are due for half a minute, oldest first. A row behind another of its workflow waits until that one is gone, which
 * keeps them in order; rows that another process is claiming at this moment are passed over.
 */
export async function claimRows(database: Database): Promise<OutboxRow[]> {
  const rows = await database.query<StoredRow>(
    `update outbox
     set next_try_at = now() + interval '30 seconds', attempts = attempts + 1
     where id in (
       select due.id from outbox due
       where due.next_try_at <= now()
         and not exists (select 1 from outbox earlier where earlier.workflow_id = due.workflow_id and earlier.id < due.id)
       order by due.next_try_at, due.id
       limit $1::integer
       for update skip locked)
     returning id, workflow, workflow_id as "workflowId", input, attempts, project_id as "projectId", signal, signal_input as "signalInput",
       (extract(epoch from now() - created_at) * 1000)::float8 as "waitedMs"`,
    [batchSize],
  );
  return rows.sort((left, right) => left.id - right.id).map(toOutboxRow);
}

interface StoredRow extends Pick<OutboxRow, 'id' | 'workflow' | 'workflowId' | 'input' | 'attempts' | 'waitedMs'> {
  readonly projectId: string | null;
  readonly signal: string | null;
  readonly signalInput: OutboxInput | null;
}

function toOutboxRow({ projectId, signal, signalInput, ...row }: StoredRow): OutboxRow {
  return {
    ...row,
    ...(projectId !== null && { projectId }),
    ...(signal !== null && { signal: { name: signal, input: signalInput ?? {} } }),
  };
}

/** How long the oldest row waits that is to be delivered, in milliseconds; 0 when there is none. Rows that were refused are not counted. */
export async function measureLag(database: Database): Promise<number> {
  const [oldest] = await database.query<{ waitedMs: number }>(
    `select (extract(epoch from now() - created_at) * 1000)::float8 as "waitedMs"
       from outbox where next_try_at <= now() + interval '30 seconds' order by id limit 1`,
  );
  return Math.max(0, oldest?.waitedMs ?? 0);
}

/** Starts the workflows of claimed rows and settles each row. Returns the error that says that Temporal is away, or null. */
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
        await start(row);
        started.push(row.id);
      } catch (error) {
        if (error instanceof PermanentStartError) {
          rejected.push(row.id);
          logger.error(
            { err: error, workflow: row.workflow, workflowId: row.workflowId, attempts: row.attempts },
            `a workflow cannot be started: ${errorSummary(error)}`,
          );
        } else {
          undelivered.push(row.id);
          outage = { outage: error };
        }
      }
    }
  }
}

/**
 * Deletes rows that were refused again and again for a month: no version of ours will start them, and `repair` writes anew what the tables
 * still want. Rows that wait for Temporal have not been refused and stay, however old. Returns how many were deleted.
 */
export async function deleteUndeliverableRows(database: Database): Promise<number> {
  const rows = await database.query(
    `delete from outbox where id in (
       select id from outbox where attempts >= 100 and created_at < now() - interval '30 days' order by id limit 500 for update skip locked)
     returning id`,
  );
  return rows.length;
}

/** A row that was refused is tried again, since a new version of ours may know better: after seconds at first, then once an hour. */
const postponeRejected = `update outbox set next_try_at = now() + least(interval '1 hour', interval '1 second' * power(2, least(attempts, 12)))
  where id = any($1::bigint[])`;

const releaseClaims = 'update outbox set next_try_at = now(), attempts = greatest(0, attempts - 1) where id = any($1::bigint[])';
