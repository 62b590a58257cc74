/**
 * Splits the rows that a transaction reads or writes into statements of bounded size. The embedded database runs on the event loop and
 * blocks it for the length of a statement; `db/embedded.ts` yields between two of them.
 */
import type { Queries } from './database.ts';

/** Rows per statement. */
export const batchSize = 500;
const maxBatchCharacters = 1_024 * 1_024;

/** Batches of at most 500 rows and 1 Mi characters; a longer row forms a batch alone. Yields nothing for no rows. */
export function* toBatches<Row>(rows: readonly Row[], charactersOf: (row: Row) => number = () => 0): Generator<readonly Row[]> {
  let start = 0;
  let characters = 0;
  for (const [index, row] of rows.entries()) {
    const added = charactersOf(row);
    if (index > start && (index - start >= batchSize || characters + added > maxBatchCharacters)) {
      yield rows.slice(start, index);
      start = index;
      characters = 0;
    }
    characters += added;
  }
  if (start < rows.length) yield rows.slice(start);
}

/** Runs `text` once per batch of `keys` and concatenates the rows; `toValues` makes the parameters of one statement. */
export async function queryInBatches<Row, Key>(
  tx: Queries,
  keys: readonly Key[],
  text: string,
  toValues: (batch: readonly Key[]) => readonly unknown[],
): Promise<Row[]> {
  const rows: Row[][] = [];
  for (const batch of toBatches(keys)) rows.push(await tx.query<Row>(text, toValues(batch)));
  return rows.flat();
}
