/**
 * Keeps the price history of each model in `model_prices`, for repricing and audits. We don't need it for pricing new
 * calls.
 *
 * Several processes can record the same price, but only one of them writes a row. While holding a lock, we compare each
 * price with the latest row of the model, and only add a row if it's different. If the clock of a process is behind,
 * its row is dated just after the latest one.
 */
import { isDeepStrictEqual } from 'node:util';
import type { JsonObject } from '../../core/json/narrow.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockGlobal } from '../../db/locks.ts';
import { toBatches } from '../../db/row-batches.ts';
import { type ModelPrices, parseStoredPrice } from './stored-price.ts';

export interface PriceEntry {
  readonly model: string;
  /** In the format of `toStoredPrice`. */
  readonly price: JsonObject | null;
  readonly source: string;
}

/** Adds a row for each model whose price differs from its latest row, and returns those models. */
export async function recordPrices(database: Database, entries: readonly PriceEntry[], now: number): Promise<string[]> {
  const added: string[] = [];
  for (const batch of toBatches(entries)) added.push(...(await database.transaction((tx) => recordBatch(tx, batch, now))));
  return added;
}

async function recordBatch(tx: Queries, entries: readonly PriceEntry[], now: number): Promise<string[]> {
  await lockGlobal(tx, 'prices');
  const latest = new Map((await selectLatest(tx, entries)).map((row) => [row.model, row]));
  const changed = entries.filter(({ model, price }) => !isDeepStrictEqual(latest.get(model)?.price ?? null, price));
  const startOf = (model: string): Date => new Date(Math.max(now, (latest.get(model)?.effectiveFrom.getTime() ?? 0) + 1));
  await insertPrices(
    tx,
    changed.map((entry) => ({ ...entry, effectiveFrom: startOf(entry.model) })),
  );
  return changed.map(({ model }) => model);
}

export async function insertPrices(tx: Queries, rows: readonly PriceRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query(
    `insert into model_prices (model, effective_from, price, source)
     select given.model, given.effective_from, given.price::jsonb, given.source
       from unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[]) as given (model, effective_from, price, source)
         on conflict (model, effective_from) do nothing`,
    [
      rows.map(({ model }) => model),
      rows.map(({ effectiveFrom }) => effectiveFrom),
      rows.map(({ price }) => (price === null ? null : JSON.stringify(price))),
      rows.map(({ source }) => source),
    ],
  );
}

export interface PricePeriod {
  readonly model: string;
  readonly effectiveFrom: number;
  /** The model's prices from `effectiveFrom` on. Null if they're unknown. */
  readonly prices: ModelPrices | null;
  readonly source: string;
}

/** Returns the latest price of each model, in no particular order. */
export async function latestPrices(database: Queries, models: readonly string[]): Promise<PricePeriod[]> {
  const rows = await selectLatest(
    database,
    models.map((model) => ({ model })),
  );
  return rows.map(toPeriod);
}

function selectLatest(queries: Queries, entries: readonly { readonly model: string }[]): Promise<PriceRow[]> {
  return queries.query<PriceRow>(
    `select distinct on (model) ${periodColumns} from model_prices where model = any ($1::text[]) order by model, effective_from desc`,
    [entries.map(({ model }) => model)],
  );
}

/** Newest first. */
export async function priceHistory(database: Queries, model: string): Promise<PricePeriod[]> {
  const rows = await database.query<PriceRow>(
    `select ${periodColumns} from model_prices where model = $1::text order by effective_from desc`,
    [model],
  );
  return rows.map(toPeriod);
}

export const periodColumns = `model, effective_from as "effectiveFrom", price, source`;

export interface PriceRow {
  readonly model: string;
  readonly effectiveFrom: Date;
  readonly price: unknown;
  readonly source: string;
}

function toPeriod({ model, effectiveFrom, price, source }: PriceRow): PricePeriod {
  return { model, effectiveFrom: effectiveFrom.getTime(), prices: price === null ? null : parseStoredPrice(price), source };
}

/** Returns null if the prices at that time are unknown. */
export async function priceAt(database: Queries, model: string, at: number): Promise<ModelPrices | null> {
  const [row] = await database.query<{ price: unknown }>(
    `select price from model_prices where model = $1::text and effective_from <= $2::timestamptz order by effective_from desc limit 1`,
    [model, new Date(at)],
  );
  return row?.price ? parseStoredPrice(row.price) : null;
}
