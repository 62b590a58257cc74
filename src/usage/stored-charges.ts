/**
 * Reads stored calls and attempts page by page, with their stored cost and the cost at the prices that were in force at
 * the time. Also writes the costs that have changed.
 */
import type { Route } from '../core/call.ts';
import type { CostAdjustment } from '../core/cost.ts';
import { minIdAt } from '../core/ids.ts';
import type { CallUnits, Tokens } from '../core/pricing.ts';
import type { Queries } from '../db/database.ts';
import { toBatches } from '../db/row-batches.ts';
import { type RecalculatedCost, recalculateCost } from './prices/recalculate-cost.ts';
import { parseStoredPrice } from './prices/stored-price.ts';

export interface ChargesWindow {
  readonly from: number;
  readonly to: number;
  /** Null for all projects. */
  readonly projectId: string | null;
  /** Null for all models. */
  readonly models: readonly string[] | null;
}

export interface StoredCharge {
  readonly id: string;
  /** Attempts are numbered from 1. The call itself is number 0. */
  readonly n: number;
  /** Null if the cost is unknown. */
  readonly costNanos: number | null;
  /** Null if there's nothing to charge, because no vendor responded or the response came from the cache. */
  readonly charge: RecalculatedCost | null;
}

export type NewCost = Pick<StoredCharge, 'id' | 'n' | 'costNanos'> & { readonly newNanos: number };

/** The number of calls per statement. It's small because a statement of the embedded database blocks the event loop. */
const pageSize = 250;

/**
 * Reads the page that follows the call `after`, or the first page if `after` is null. Leaves out failed attempts that
 * nobody was charged for.
 */
export async function readCharges(
  tx: Queries,
  { from, to, projectId, models }: ChargesWindow,
  after: string | null,
): Promise<{ calls: readonly StoredCharge[]; attempts: readonly StoredCharge[] }> {
  const calls = await tx.query<ChargeRow>(selectCalls, [minIdAt(from), minIdAt(to), after, projectId, models, pageSize]);
  const charged = calls.filter(isCharged).map(({ id }) => id);
  const attempts = charged.length === 0 ? [] : await tx.query<ChargeRow>(selectAttempts, [charged]);
  const charges = attempts.map(toCharge);
  const byCall = Map.groupBy(charges, ({ id }) => id);
  return { calls: calls.map((call) => withAttempts(toCharge(call), byCall.get(call.id) ?? [])), attempts: charges };
}

/** The row of a call only has the tokens of one attempt, so its cost is the sum over all attempts. */
function withAttempts(call: StoredCharge, attempts: readonly StoredCharge[]): StoredCharge {
  if (attempts.length < 2 || call.charge?.kind !== 'cost') return call;
  const nanos = attempts.reduce((sum, { charge }) => sum + (charge?.kind === 'cost' ? charge.nanos : 0), 0);
  return { ...call, charge: { kind: 'cost', nanos } };
}

/** Skips calls that have been deleted in the meantime. */
export async function writeCallCosts(tx: Queries, costs: readonly NewCost[]): Promise<readonly CostAdjustment[]> {
  if (costs.length === 0) return [];
  return tx.query<CostAdjustment>(
    `update calls set cost_nanos = changed.nanos
       from unnest($1::uuid[], $2::bigint[], $3::bigint[]) as changed (id, nanos, before)
      where calls.id = changed.id
     returning calls.id as "callId", changed.nanos - coalesce(changed.before, 0) as nanos`,
    [costs.map(({ id }) => id), costs.map(({ newNanos }) => newNanos), costs.map(({ costNanos }) => costNanos)],
  );
}

export async function writeAttemptCosts(tx: Queries, costs: readonly NewCost[]): Promise<number> {
  let updated = 0;
  for (const batch of toBatches(costs)) {
    const rows = await tx.query(
      `update attempts set cost_nanos = changed.nanos
         from unnest($1::uuid[], $2::integer[], $3::bigint[]) as changed (call_id, n, nanos)
        where attempts.call_id = changed.call_id and attempts.n = changed.n
       returning attempts.n`,
      [batch.map(({ id }) => id), batch.map(({ n }) => n), batch.map(({ newNanos }) => newNanos)],
    );
    updated += rows.length;
  }
  return updated;
}

interface ChargeRow extends Tokens {
  readonly id: string;
  readonly n: number;
  readonly route: Route;
  readonly model: string | null;
  readonly cache: string | null;
  readonly costNanos: number | null;
  /** Null if no units are stored. */
  readonly units: CallUnits | null;
  /** The price at the start of the call, in the format of `toStoredPrice`. */
  readonly price: unknown;
}

function isCharged({ model, cache }: ChargeRow): boolean {
  return model !== null && cache !== 'hit';
}

function toCharge(row: ChargeRow): StoredCharge {
  const { id, n, costNanos, route, model: _model, cache: _cache, units, price, ...tokens } = row;
  const charge = isCharged(row) ? recalculateCost(route, tokens, units, price ? parseStoredPrice(price) : null) : null;
  return { id, n, costNanos, charge };
}

const chargeColumns = (row: string, units = 'c.units'): string => `
  ${row}.cost_nanos as "costNanos", ${row}.tokens_input as input, ${row}.tokens_cached_input as "cachedInput",
  ${row}.tokens_cache_write as "cacheWrite", ${row}.tokens_cache_write_1h as "cacheWrite1h", ${row}.tokens_output as output,
  ${units} as units, p.price`;

/** All attempts are charged at the prices that were in force when the call started. */
const priceJoin = (model: string): string => `
  left join lateral (
    select price from model_prices where model = ${model} and effective_from <= c.started_at order by effective_from desc limit 1
  ) as p on true`;

const selectCalls = `
  select c.id, 0 as n, c.route, c.model, c.cache, ${chargeColumns('c')}
    from calls c ${priceJoin('c.model')}
   where c.id >= $1::uuid and c.id < $2::uuid and ($3::uuid is null or c.id > $3::uuid) and ($4::uuid is null or c.project_id = $4::uuid)
     and ($5::text[] is null or c.model = any ($5::text[]))
   order by c.id
   limit $6::integer`;

/**
 * SQL for the units that an attempt is charged for. The call's service tier and tool uses only apply to its last
 * attempt. If earlier attempts were cut off, their input is charged at the standard tier.
 */
const unitsOfAttempt = `
  case when a.n = (select max(n) from attempts where call_id = c.id) then c.units else c.units - '{serviceTier,toolUses}'::text[] end`;

/**
 * Selects attempts and everything that determines their cost. The stored units belong to the attempt that served the
 * call, even if it was free.
 */
const selectAttempts = `
  select c.id, a.n, c.route, a.provider || '/' || a.model as model, c.cache, ${chargeColumns('a', unitsOfAttempt)}
    from attempts a
    join calls c on c.id = a.call_id ${priceJoin(`a.provider || '/' || a.model`)}
   where a.call_id = any ($1::uuid[])
     and (a.cost_nanos is distinct from 0
          or a.tokens_input + a.tokens_cached_input + a.tokens_cache_write + a.tokens_cache_write_1h + a.tokens_output > 0
          or (c.units is not null and a.n = (select max(n) from attempts where call_id = c.id)))
   order by a.call_id, a.n`;
