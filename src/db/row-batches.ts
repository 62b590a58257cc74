/**
 * Splits the rows that a transaction reads or writes into statements of bounded size. The embedded database runs on the event loop and
 * blocks it for the length of a statement; `db/embedded.ts` yields between two of them.
 */
import { type ArrayValue, toArrayLiteral } from './array-literal.ts';
import type { Queries } from './database.ts';

/** Rows per statement. */
export const batchSize = 500;
const defaultMaxSize = 1_024 * 1_024;

/** Batches of at most 500 rows and a total size of `maxSize`, by default 1 Mi characters; a larger row forms a batch alone. Yields nothing for no rows. */
export function* toBatches<Row>(
  rows: readonly Row[],
  sizeOf: (row: Row) => number = () => 0,
  maxSize = defaultMaxSize,
): Generator<readonly Row[]> {
  let start = 0;
  let size = 0;
  for (const [index, row] of rows.entries()) {
    const added = sizeOf(row);
    if (index > start && (index - start >= batchSize || size + added > maxSize)) {
      yield rows.slice(start, index);
      start = index;
      size = 0;
    }
    size += added;
  }
  if (start < rows.length) yield rows.slice(start);
}

/** Each column of `rows` as an array literal, the parameters of `unnest`. */
export function toColumns<Column extends string>(
  rows: readonly Readonly<Record<Column, ArrayValue>>[],
  ...columns: readonly Column[]
): string[] {
  return columns.map((column) => toArrayLiteral(rows, (row) => row[column]));
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
