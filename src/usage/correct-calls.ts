/**
 * Corrects the outcome and cost of calls that are already stored. We need this for videos, because we only learn both
 * after we've responded to the caller.
 */
import type { Outcome } from '../core/call.ts';
import type { CostAdjustment } from '../core/cost.ts';
import type { Queries } from '../db/database.ts';

export interface CallCorrection {
  readonly callId: string;
  /** Null to keep the stored outcome. */
  readonly outcome: Outcome | null;
  /** Null to keep the stored code. */
  readonly code: string | null;
  readonly costNanos: number | null;
  readonly estimated: boolean;
}

/**
 * Corrects calls and their attempts. Skips calls that aren't stored yet. Only use this for calls with a single attempt,
 * because the attempt gets the same outcome and cost as the call.
 */
export async function correctCalls(tx: Queries, corrections: readonly CallCorrection[]): Promise<readonly CostAdjustment[]> {
  if (corrections.length === 0) return [];
  const ids = corrections.map(({ callId }) => callId);
  const outcomes = corrections.map(({ outcome }) => outcome);
  const costs = corrections.map(({ costNanos }) => costNanos);
  const adjustments = await tx.query<CostAdjustment>(
    `with before as (
       select id, cost_nanos from calls where id = any ($1::uuid[]) for update
     )
     update calls
        set outcome = coalesce(correct.outcome, calls.outcome), code = coalesce(correct.code, calls.code),
            cost_nanos = correct.cost_nanos, estimated = correct.estimated
       from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::boolean[]) as correct (id, outcome, code, cost_nanos, estimated)
       join before on before.id = correct.id
      where calls.id = correct.id
     returning calls.id as "callId", coalesce(calls.cost_nanos, 0) - coalesce(before.cost_nanos, 0) as nanos`,
    [ids, outcomes, corrections.map(({ code }) => code), costs, corrections.map(({ estimated }) => estimated)],
  );
  await tx.query(
    `update attempts
        set outcome = coalesce(correct.outcome, attempts.outcome), cost_nanos = correct.cost_nanos
       from unnest($1::uuid[], $2::text[], $3::bigint[]) as correct (id, outcome, cost_nanos)
      where attempts.call_id = correct.id and attempts.n = 1`,
    [ids, outcomes, costs],
  );
  return adjustments;
}
