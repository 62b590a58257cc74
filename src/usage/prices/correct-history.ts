/**
 * Corrects the price history in `model_prices`, by replacing wrong prices of the past with current ones.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Queries } from '../../db/database.ts';
import { lockGlobal } from '../../db/locks.ts';
import { toBatches } from '../../db/row-batches.ts';
import { insertPrices, type PriceRow, periodColumns } from './price-history.ts';

/** The number of models per statement. A model only has a few prices, so a statement returns fewer than 500 rows. */
const batchSize = 50;

/**
 * Corrects the history from `from` to `to` (exclusive). Returns the models whose history was changed, and the models
 * that couldn't be corrected because they have no current price.
 */
export async function correctHistory(
  tx: Queries,
  models: readonly string[],
  { from, to }: { readonly from: number; readonly to: number },
): Promise<{ corrected: readonly string[]; withoutPrice: readonly string[] }> {
  await lockGlobal(tx, 'prices');
  const corrected: string[] = [];
  const withoutPrice: string[] = [];
  for (const batch of toBatches(models, () => 1, batchSize)) {
    const rows = await tx.query<PriceRow>(
      `select ${periodColumns} from model_prices where model = any ($1::text[]) order by model, effective_from`,
      [batch],
    );
    const byModel = Map.groupBy(rows, ({ model }) => model);
    withoutPrice.push(...batch.filter((model) => !byModel.get(model)?.at(-1)?.price));
    const added = batch.flatMap((model) => correctedRows(byModel.get(model) ?? [], from, to));
    const changed = [...new Set(added.map(({ model }) => model))];
    if (changed.length === 0) continue;
    await tx.query(
      'delete from model_prices where model = any ($1::text[]) and effective_from >= $2::timestamptz and effective_from < $3::timestamptz',
      [changed, new Date(from), new Date(to)],
    );
    await insertPrices(tx, added);
    corrected.push(...changed);
  }
  return { corrected, withoutPrice };
}

/**
 * Returns the rows to insert so that the current price applies from `from` to `to`. Returns an empty list if that's
 * already the case, or if the model has no current price. `rows` have to be sorted by time.
 */
function correctedRows(rows: readonly PriceRow[], from: number, to: number): PriceRow[] {
  const now = rows.at(-1);
  if (!now?.price) return [];
  const inForceAt = (at: number): PriceRow | undefined => rows.findLast(({ effectiveFrom }) => effectiveFrom.getTime() <= at);
  const isNow = (row: PriceRow | undefined): boolean => isDeepStrictEqual(row?.price ?? null, now.price);
  const within = rows.filter(({ effectiveFrom }) => effectiveFrom.getTime() > from && effectiveFrom.getTime() < to);
  if ([inForceAt(from), ...within].every(isNow)) return [];
  const after = inForceAt(to);
  const continues = after?.effectiveFrom.getTime() === to || isNow(after);
  return [
    { ...now, effectiveFrom: new Date(from) },
    ...(continues ? [] : [{ ...now, price: after?.price ?? null, source: after?.source ?? now.source, effectiveFrom: new Date(to) }]),
  ];
}
