/**
 * Recalculates the costs of stored calls at the prices of `model_prices` in force when they started, in one transaction with their attempts
 * and the ceiling counters. Idempotent.
 *
 * Calls continue to be stored meanwhile: rows that a drain needs are not locked before the last step. Only changed costs are written. Calls
 * whose cost cannot be computed exactly from their rows are skipped and counted.
 */

import { type CostAdjustment, toUsd } from '../core/cost.ts';
import { gatewayError } from '../core/errors.ts';
import { minIdAt } from '../core/ids.ts';
import { formatTime } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import { lockGlobal } from '../db/locks.ts';
import { correctHistory } from './prices/correct-history.ts';
import type { RecalculatedCost } from './prices/recalculate-cost.ts';
import type { RepriceInput } from './reprice-input.ts';
import { type ChargesWindow, readCharges, type StoredCharge, writeAttemptCosts, writeCallCosts } from './stored-charges.ts';

export interface RepriceRequest extends Omit<RepriceInput, 'project'> {
  /** Null for all projects. */
  readonly projectId: string | null;
}

/** Response of the route. */
export interface RepriceReceipt {
  readonly from: string;
  readonly to: string;
  readonly prices: 'dated' | 'now';
  readonly models: readonly string[] | null;
  /** Models whose price history was corrected. */
  readonly prices_corrected: readonly string[];
  /** Calls in the window. */
  readonly calls: number;
  readonly calls_changed: number;
  /** Of these, calls whose cost was unknown. */
  readonly calls_newly_priced: number;
  readonly attempts_changed: number;
  /** Ceiling counters. */
  readonly counters_changed: number;
  /** Unchanged calls by reason: no price, charged by units that are not stored, videos. */
  readonly left: Readonly<Record<SkipReason, number>>;
  /** USD. */
  readonly difference: number;
}

type SkipReason = Exclude<RecalculatedCost['kind'], 'cost'>;

/** Implemented by `ceilings/counter-updates.ts`. */
type StartCostAdjustment = (
  tx: Queries,
  projectIds: readonly string[],
) => Promise<{ add(changes: readonly CostAdjustment[]): Promise<void>; count(): Promise<number> }>;

export type Reprice = (request: RepriceRequest) => Promise<RepriceReceipt>;

export function createReprice(deps: { database: Database; startCostAdjustment: StartCostAdjustment }): Reprice {
  const { database, startCostAdjustment } = deps;
  return (request) =>
    database.transaction(async (tx) => {
      await lockGlobal(tx, 'reprice');
      const pricesCorrected = request.prices === 'now' ? await correctPrices(tx, request) : [];
      const projectIds = await findProjects(tx, request);
      const costs = await startCostAdjustment(tx, projectIds);
      const totals = await recalculateWindow(tx, { ...request, projectIds }, costs.add);
      const { from, to, prices, models } = request;
      const { nanos, ...counts } = totals;
      const receipt: RepriceReceipt = {
        ...{ from: formatTime(from), to: formatTime(to), prices, models, prices_corrected: pricesCorrected },
        ...counts,
        counters_changed: await costs.count(),
        difference: toUsd(nanos),
      };
      return receipt;
    });
}

async function correctPrices(tx: Queries, { from, to, models }: RepriceRequest): Promise<readonly string[]> {
  const { corrected, withoutPrice } = await correctHistory(tx, models ?? (await findModels(tx, from, to)), { from, to });
  if (models && withoutPrice.length > 0)
    throw gatewayError('bad_request', { message: `models: there is no price now for ${withoutPrice.join(', ')}` });
  return corrected;
}

async function findModels(tx: Queries, from: number, to: number): Promise<string[]> {
  const rows = await tx.query<{ model: string }>(
    'select distinct model from calls where id >= $1::uuid and id < $2::uuid and model is not null order by model',
    [minIdAt(from), minIdAt(to)],
  );
  return rows.map(({ model }) => model);
}

/** Projects with calls in the window. */
async function findProjects(tx: Queries, { from, to, projectId }: RepriceRequest): Promise<string[]> {
  if (projectId !== null) return [projectId];
  const rows = await tx.query<{ id: string }>('select distinct project_id as id from calls where id >= $1::uuid and id < $2::uuid', [
    minIdAt(from),
    minIdAt(to),
  ]);
  return rows.map(({ id }) => id);
}

type Totals = Pick<RepriceReceipt, 'calls' | 'calls_changed' | 'calls_newly_priced' | 'attempts_changed' | 'left'> & {
  readonly nanos: number;
};

async function recalculateWindow(
  tx: Queries,
  window: ChargesWindow,
  onChanges: (changes: readonly CostAdjustment[]) => Promise<void>,
): Promise<Totals> {
  let totals: Totals = {
    ...{ calls: 0, calls_changed: 0, calls_newly_priced: 0, attempts_changed: 0, nanos: 0 },
    left: { price_unknown: 0, units_not_kept: 0, video: 0 },
  };
  for (let after: string | null = null; ; ) {
    const page = await readCharges(tx, window, after);
    const last = page.calls.at(-1);
    if (!last) return totals;
    const changes = await writeCallCosts(tx, page.calls.flatMap(toNewCosts));
    await onChanges(changes);
    const attempts = await writeAttemptCosts(tx, page.attempts.flatMap(toNewCosts));
    totals = addPage(totals, page.calls, changes, attempts);
    after = last.id;
  }
}

function toNewCosts({ charge, ...row }: StoredCharge) {
  return charge?.kind === 'cost' && charge.nanos !== row.costNanos ? [{ ...row, newNanos: charge.nanos }] : [];
}

function addPage(totals: Totals, calls: readonly StoredCharge[], changes: readonly CostAdjustment[], attempts: number): Totals {
  const unknown = new Set(calls.filter(({ costNanos }) => costNanos === null).map(({ id }) => id));
  const skippedFor = (reason: SkipReason): number => totals.left[reason] + calls.filter(({ charge }) => charge?.kind === reason).length;
  return {
    calls: totals.calls + calls.length,
    calls_changed: totals.calls_changed + changes.length,
    calls_newly_priced: totals.calls_newly_priced + changes.filter(({ callId }) => unknown.has(callId)).length,
    attempts_changed: totals.attempts_changed + attempts,
    left: { price_unknown: skippedFor('price_unknown'), units_not_kept: skippedFor('units_not_kept'), video: skippedFor('video') },
    nanos: changes.reduce((sum, { nanos }) => sum + nanos, totals.nanos),
  };
}
