/**
 * Splits large reads and writes into statements of limited size. The embedded database blocks the event loop while it
 * executes a statement, and `db/embedded.ts` only yields between statements.
 */
import { type ArrayValue, toArrayLiteral, toArrayParameter, toParameter } from './array-literal.ts';
import type { Queries } from './database.ts';

export const batchSize = 500;
const defaultMaxSize = 1_024 * 1_024;

/**
 * Yields batches of at most 500 rows, whose total size is at most `maxSize` (1 Mi characters by default). A row that's
 * larger than that gets a batch of its own. If there are no rows, there are no batches.
 */
export function* toBatches<Row>(
  rows: readonly Row[],
  sizeOf: (row: Row) => number = () => 0,
  maxSize = defaultMaxSize,
): Generator<readonly Row[]> {
  let start = 0;
  let size = 0;
  for (let index = 0; index < rows.length; index += 1) {
    const added = sizeOf(rows[index] as Row);
    if (index > start && (index - start >= batchSize || size + added > maxSize)) {
      yield rows.slice(start, index);
      start = index;
      size = 0;
    }
    size += added;
  }
  if (start < rows.length) yield start === 0 ? rows : rows.slice(start);
}

/** Formats each column of `rows` as an array literal, for use with `unnest`. */
export function toColumns<Column extends string>(
  rows: readonly Readonly<Record<Column, ArrayValue>>[],
  ...columns: readonly Column[]
): string[] {
  return columns.map((column) => toArrayLiteral(rows, (row) => row[column]));
}

/**
 * A column to send, i.e. its name, its SQL type, and a function that returns its value for a row, in the format that
 * `toArrayParameter` expects.
 */
export type Column<Row> = readonly [name: string, sqlType: string, toValue: (row: Row) => ArrayValue];

/**
 * Builds a `select` that returns `rows`, together with its parameters. There has to be at least one row. The first
 * column is always sent as the array `$1`. If all rows have the same value in another column, we only send that value
 * once. This is worth it because the server needs 0.05 to 0.5 µs per array element, and most usage columns contain only
 * one distinct value.
 */
export function selectRows<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): { readonly text: string; readonly values: readonly unknown[] } {
  const values: unknown[] = [];
  const arrays: string[] = [];
  const arrayNames: string[] = [];
  const fields = columns.map(([name, sqlType, toValue]) => {
    const parameter = `$${values.length + 1}::${sqlType}`;
    const first = toValue(rows[0] as Row);
    if (values.length > 0 && rows.every((row) => toValue(row) === first)) {
      values.push(toParameter(sqlType, first));
      return `${parameter} as ${name}`;
    }
    values.push(toArrayParameter(sqlType, rows.map(toValue)));
    arrays.push(`${parameter}[]`);
    arrayNames.push(name);
    return name;
  });
  return { text: `select ${fields.join(', ')} from unnest(${arrays.join(', ')}) as sent (${arrayNames.join(', ')})`, values };
}

/**
 * Sends `rows` to the database in batches, runs a statement for each batch, and returns what the statements return.
 * `toText` gets the `select` of a batch and builds the whole statement around it. `sizeOf` limits the size of a batch
 * as in `toBatches`.
 */
export async function querySelected<Result, Row>(
  tx: Queries,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  toText: (select: string) => string,
  sizeOf?: (row: Row) => number,
): Promise<Result[]> {
  const results: Result[][] = [];
  for (const batch of toBatches(rows, sizeOf)) {
    const { text, values } = selectRows(columns, batch);
    results.push(await tx.query<Result>(toText(text), values));
  }
  return results.flat();
}

/**
 * Runs the statement `text` once per batch of `rows`, and returns all of the resulting rows. `toValues` returns the
 * parameters for a batch.
 */
export async function queryInBatches<Result, Row>(
  tx: Queries,
  rows: readonly Row[],
  text: string,
  toValues: (batch: readonly Row[]) => readonly unknown[],
): Promise<Result[]> {
  const results: Result[][] = [];
  for (const batch of toBatches(rows)) results.push(await tx.query<Result>(text, toValues(batch)));
  return results.flat();
}
