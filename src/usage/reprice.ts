/**
 * Recalculates what stored calls cost, at the prices that were in force when they started (`model_prices`).
 *
 * We do this in slices. Each of them is a transaction that updates calls, their attempts and the ceiling counters, so
 * that admission doesn't have to wait for the whole reprice. If it fails, only a part of the window has been repriced.
 * Repricing is idempotent, so just run it again.
 *
 * We only write costs that have changed. If the rows aren't enough to compute the exact cost of a call, we leave it
 * alone and count it.
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

export type RepriceRequest = Omit<RepriceInput, 'project'> & Pick<ChargesWindow, 'projectId'>;

type SkipReason = Exclude<RecalculatedCost['kind'], 'cost'>;

/**
 * Updates the ceiling counters (see `ceilings/counter-updates.ts`). Resolves with how much each counter has changed, by
 * its id.
 */
type AdjustCosts = (tx: Queries, changes: readonly CostAdjustment[]) => Promise<ReadonlyMap<number, number>>;

export type Reprice = ReturnType<typeof createReprice>;

export function createReprice({ database, adjustCosts }: { database: Database; adjustCosts: AdjustCosts }) {
  return async (request: RepriceRequest) => {
    const { from, to, prices, models } = request;
    const pricesCorrected = prices === 'now' ? await database.transaction((tx) => correctPrices(tx, request)) : [];
    const counters = new Map<number, number>();
    let totals = noTotals;
    for (let after: string | null = null; ; ) {
      const slice: RepricedSlice | null = await database.transaction((tx) => repriceSlice(tx, request, after, adjustCosts));
      if (slice === null) break;
      totals = addSlice(totals, slice);
      for (const [id, amount] of slice.counters) counters.set(id, amount + (counters.get(id) ?? 0));
      after = slice.lastId;
    }
    const { nanos, ...counts } = totals;
    return {
      ...{ from: formatTime(from), to: formatTime(to), prices, models, prices_corrected: pricesCorrected },
      ...counts,
      counters_changed: [...counters.values()].filter((amount) => amount !== 0).length,
      /** The sum of all changes in USD. */
      difference: toUsd(nanos),
    };
  };
}

async function correctPrices(tx: Queries, { from, to, models }: RepriceRequest): Promise<readonly string[]> {
  await lockGlobal(tx, 'reprice');
  const { corrected, withoutPrice } = await correctHistory(tx, models ?? (await findModels(tx, from, to)), { from, to });
  if (models && withoutPrice.length > 0)
    throw gatewayError('bad_request', {
      issues: [{ path: 'models', message: `there is no current price for ${withoutPrice.join(', ')}` }],
    });
  return corrected;
}

async function findModels(tx: Queries, from: number, to: number): Promise<string[]> {
  const rows = await tx.query<{ model: string }>(
    'select distinct model from calls where id >= $1::uuid and id < $2::uuid and model is not null order by model',
    [minIdAt(from), minIdAt(to)],
  );
  return rows.map(({ model }) => model);
}

interface RepricedSlice {
  readonly calls: readonly StoredCharge[];
  readonly changes: readonly CostAdjustment[];
  readonly attemptsChanged: number;
  readonly counters: ReadonlyMap<number, number>;
  readonly lastId: string;
}

/** Reprices the next slice, which begins after the call `after`. Returns null if there are no more calls. */
async function repriceSlice(
  tx: Queries,
  window: ChargesWindow,
  after: string | null,
  adjustCosts: AdjustCosts,
): Promise<RepricedSlice | null> {
  // Take this lock so that no other reprice changes a cost between our read and our write.
  await lockGlobal(tx, 'reprice');
  const { calls, attempts } = await readCharges(tx, window, after);
  const last = calls.at(-1);
  if (!last) return null;
  const changes = await writeCallCosts(tx, calls.flatMap(toNewCosts));
  const attemptsChanged = await writeAttemptCosts(tx, attempts.flatMap(toNewCosts));
  // Update the counters last, because this locks rows that other processes need for their leases.
  const counters = await adjustCosts(tx, changes);
  return { calls, changes, attemptsChanged, counters, lastId: last.id };
}

function toNewCosts({ charge, ...row }: StoredCharge) {
  return charge?.kind === 'cost' && charge.nanos !== row.costNanos ? [{ ...row, newNanos: charge.nanos }] : [];
}

interface Totals {
  readonly calls: number;
  readonly calls_changed: number;
  /** How many of the changed calls had an unknown cost before. */
  readonly calls_newly_priced: number;
  readonly attempts_changed: number;
  /** How many calls kept their cost because it can't be recalculated, by reason (see `RecalculatedCost`). */
  readonly left: Readonly<Record<SkipReason, number>>;
  /** The sum of all changes in nano-dollars. */
  readonly nanos: number;
}

const noTotals: Totals = {
  ...{ calls: 0, calls_changed: 0, calls_newly_priced: 0, attempts_changed: 0, nanos: 0 },
  left: { price_unknown: 0, units_not_kept: 0, video: 0 },
};

function addSlice(totals: Totals, { calls, changes, attemptsChanged }: RepricedSlice): Totals {
  const unknown = new Set(calls.filter(({ costNanos }) => costNanos === null).map(({ id }) => id));
  const skippedFor = (reason: SkipReason): number => totals.left[reason] + calls.filter(({ charge }) => charge?.kind === reason).length;
  return {
    calls: totals.calls + calls.length,
    calls_changed: totals.calls_changed + changes.length,
    calls_newly_priced: totals.calls_newly_priced + changes.filter(({ callId }) => unknown.has(callId)).length,
    attempts_changed: totals.attempts_changed + attemptsChanged,
    left: { price_unknown: skippedFor('price_unknown'), units_not_kept: skippedFor('units_not_kept'), video: skippedFor('video') },
    nanos: changes.reduce((sum, { nanos }) => sum + nanos, totals.nanos),
  };
}
