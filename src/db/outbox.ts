/**
 * A transactional outbox. We write a row in the same transaction as the change that causes it, and
 * `temporal/outbox/dispatcher.ts` delivers it to Temporal by starting or signalling a workflow.
 */
import { activeTrace } from '../observability/tracing.ts';
import { toArrayLiteral } from './array-literal.ts';
import type { Database, Queries } from './database.ts';
import { batchSize } from './row-batches.ts';

export interface OutboxEntry {
  readonly workflow: string;
  /** The Temporal workflow id. Starting a workflow that is already running has no effect. */
  readonly workflowId: string;
  /** The workflow's input. Temporal stores it, so it must not contain text, only ids, counts and hashes. */
  readonly input: OutboxInput;
  /**
   * The project that the work belongs to, if there is one. It becomes a search attribute, by which operators find the
   * runs of a project.
   */
  readonly projectId?: string;
  /**
   * The trace context (W3C `traceparent`) of whatever caused this row, if it was sampled. Defaults to the active span.
   */
  readonly trace?: string | undefined;
  /**
   * A signal for the workflow. If the workflow isn't running, we start it first. Signals can be delivered twice, so
   * handling them must be idempotent.
   */
  readonly signal?: { readonly name: string; readonly input: OutboxInput };
}

export type OutboxInput = Readonly<Record<string, string | number | boolean | null>>;

/** Adds entries to the outbox, in order. The dispatcher is notified when `tx` commits. */
export async function enqueue(tx: Queries, entries: readonly OutboxEntry[]): Promise<void> {
  if (entries.length === 0) return;
  await tx.query(
    `insert into outbox (workflow, workflow_id, input, project_id, signal, signal_input, trace)
     select * from unnest($1::text[], $2::text[], $3::jsonb[], $4::uuid[], $5::text[], $6::jsonb[], $7::text[])`,
    [
      toArrayLiteral(entries, ({ workflow }) => workflow),
      toArrayLiteral(entries, ({ workflowId }) => workflowId),
      toArrayLiteral(entries, ({ input }) => JSON.stringify(input)),
      toArrayLiteral(entries, ({ projectId = null }) => projectId),
      toArrayLiteral(entries, ({ signal }) => signal?.name ?? null),
      toArrayLiteral(entries, ({ signal }) => (signal ? JSON.stringify(signal.input) : null)),
      toArrayLiteral(entries, ({ trace = activeTrace() }) => trace ?? null),
    ],
  );
  await tx.query(`select pg_notify('gateway_outbox', '')`);
}

/**
 * Enqueues an entry for each row that a query returns, with one transaction per page. The query has to order its rows
 * by id, and return at most $2 rows whose id is greater than $1.
 */
export async function enqueueInPages<Row extends { readonly id: string }>(
  database: Database,
  text: string,
  toEntry: (row: Row) => OutboxEntry,
): Promise<void> {
  let after = '00000000-0000-0000-0000-000000000000';
  for (;;) {
    const rows = await database.transaction(async (tx) => {
      const page = await tx.query<Row>(text, [after, batchSize]);
      await enqueue(tx, page.map(toEntry));
      return page;
    });
    const last = rows.at(-1);
    if (!last || rows.length < batchSize) return;
    after = last.id;
  }
}

/**
 * Like `enqueue`, for signals that only tell a workflow to check its state. If the same signal is already waiting in
 * the outbox, we don't add another one. Instead we lock the existing row until `tx` ends. That way it's delivered after
 * the commit, when the workflow can see what `tx` has written.
 */
export async function enqueueUnlessPending(tx: Queries, entry: OutboxEntry & Required<Pick<OutboxEntry, 'signal'>>): Promise<void> {
  const [pending] = await tx.query(
    `select 1 from outbox where workflow_id = $1::text and signal = $2::text and attempts = 0 order by id limit 1 for share`,
    [entry.workflowId, entry.signal.name],
  );
  if (!pending) return enqueue(tx, [entry]);
  await tx.query(`select pg_notify('gateway_outbox', '')`);
}
