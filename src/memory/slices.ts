/**
 * Cuts what a batch asks and writes into statements. The embedded database works on the event loop: it is held up for the length of a
 * statement, and `db/embedded.ts` lets the loop turn between two of them (decisions 1). So nothing here has to wait for anything but SQL.
 */
import type { Queries } from '../db/database.ts';

export const sliceRows = 500;
const sliceCharacters = 1_024 * 1_024;

/** At most 500 rows, and no more than 1 Mi characters of them unless a row alone is longer. Not one slice for no rows. */
export function* slicesOf<Row>(rows: readonly Row[], charactersOf: (row: Row) => number = () => 0): Generator<readonly Row[]> {
  let begin = 0;
  let characters = 0;
  for (const [at, row] of rows.entries()) {
    const more = charactersOf(row);
    if (at > begin && (at - begin >= sliceRows || characters + more > sliceCharacters)) {
      yield rows.slice(begin, at);
      begin = at;
      characters = 0;
    }
    characters += more;
  }
  if (begin < rows.length) yield rows.slice(begin);
}

/** The rows that `text` gives for all of `wanted`; `valuesOf` makes the parameters of a slice. */
export async function queryInSlices<Row, Wanted>(
  tx: Queries,
  wanted: readonly Wanted[],
  text: string,
  valuesOf: (slice: readonly Wanted[]) => readonly unknown[],
): Promise<Row[]> {
  const rows: Row[][] = [];
  for (const slice of slicesOf(wanted)) rows.push(await tx.query<Row>(text, valuesOf(slice)));
  return rows.flat();
}
