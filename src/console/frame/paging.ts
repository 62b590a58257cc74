/** Lists that are read page by page with the key of the last row: what a page shows, and all rows for CSV. */
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { pageParameter } from './navigation.ts';
import type { ConsoleContext, CsvValue } from './route.ts';

const csvPageSize = 500;

/** The id of the row after which the page begins; null on the first page. Throws `bad_request`. */
export function parsePageId({ url }: Pick<ConsoleContext, 'url'>): string | null {
  const id = url.searchParams.get(pageParameter) || null;
  if (id !== null && !isUuid(id)) throw gatewayError('bad_request', { message: `${pageParameter}: must be an id of this list` });
  return id;
}

/** The rows of a page, and the key for `pager`. `rows`: one more than a page if another page follows. */
export function cutPage<Row>(
  rows: readonly Row[],
  size: number,
  keyOf: (row: Row) => string,
): { readonly shown: readonly Row[]; readonly next: string | null } {
  const shown = rows.slice(0, size);
  const last = shown.at(-1);
  return { shown, next: rows.length > size && last !== undefined ? keyOf(last) : null };
}

export interface CsvSource<Row> {
  /** Rows that follow the one with the key `after`; fewer than `limit` at the end of the list. */
  readonly readPage: (after: string | null, limit: number) => Promise<readonly Row[]>;
  readonly keyOf: (row: Row) => string;
  readonly toCsv: (row: Row) => readonly CsvValue[];
}

/** All rows of a list for CSV. */
export async function* csvRows<Row>({ readPage, keyOf, toCsv }: CsvSource<Row>): AsyncGenerator<readonly CsvValue[]> {
  for (let after: string | null = null; ; ) {
    const rows: readonly Row[] = await readPage(after, csvPageSize);
    yield* rows.map(toCsv);
    const last = rows.at(-1);
    if (rows.length < csvPageSize || last === undefined) return;
    after = keyOf(last);
  }
}
