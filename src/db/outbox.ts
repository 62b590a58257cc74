/** Durable intents: a row written in the same transaction as its cause; `jobs/dispatcher.ts` turns it into a workflow start or signal. */
import type { Queries } from './database.ts';

export interface OutboxEntry {
  /** Name of the workflow to start (see `workflows/contract.ts`). */
  readonly workflow: string;
  /** Temporal workflow id; starting twice with the same id while it runs is harmless. */
  readonly workflowId: string;
  /** Of the start. Ids, counts and hashes only; never text (decisions 8). */
  readonly input: OutboxInput;
  /** For operators, who look for runs of a project; left out where the work is of none. */
  readonly projectId?: string;
  /** Sent to the workflow, which is started first where it does not run. It may come twice: what it causes must be the same then. */
  readonly signal?: { readonly name: string; readonly input: OutboxInput };
}

export type OutboxInput = Readonly<Record<string, string | number | boolean | null>>;

/** Writes the rows in the transaction `tx`, in order, and wakes the dispatcher when it commits. */
export async function enqueue(tx: Queries, entries: readonly OutboxEntry[]): Promise<void> {
  if (entries.length === 0) return;
  await tx.query(
    `insert into outbox (workflow, workflow_id, input, project_id, signal, signal_input)
     select * from unnest($1::text[], $2::text[], $3::jsonb[], $4::uuid[], $5::text[], $6::jsonb[])`,
    [
      entries.map((entry) => entry.workflow),
      entries.map((entry) => entry.workflowId),
      entries.map((entry) => JSON.stringify(entry.input)),
      entries.map((entry) => entry.projectId ?? null),
      entries.map((entry) => entry.signal?.name ?? null),
      entries.map((entry) => entry.signal && JSON.stringify(entry.signal.input)),
    ],
  );
  await tx.query(`select pg_notify('gateway_outbox', '')`);
}

/**
 * As `enqueue`, unless a row with the same signal waits for the same workflow already: for signals that say no more than 'look again'. The row
 * that waits is held until `tx` ends, so that it is delivered after the commit and its workflow sees what was written.
 */
export async function enqueueUnlessPending(tx: Queries, entry: OutboxEntry & Required<Pick<OutboxEntry, 'signal'>>): Promise<void> {
  const [pending] = await tx.query(
    `select 1 from outbox where workflow_id = $1::text and signal = $2::text and attempts = 0 order by id limit 1 for share`,
    [entry.workflowId, entry.signal.name],
  );
  if (!pending) return enqueue(tx, [entry]);
  await tx.query(`select pg_notify('gateway_outbox', '')`);
}
