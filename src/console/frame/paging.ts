/** Cuts lists into pages with keyset pagination, and reads all pages for a CSV export. */
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { pageParameter } from './navigation.ts';
import type { ConsoleContext, CsvResult, CsvValue } from './route.ts';

const csvPageSize = 500;
/** The page size for lists of messages. It's small, because messages can be long and pages should stay below 150 kB. */
export const messagesPerPage = 25;

/**
 * Returns the id of the last row on the previous page, or null on the first page. Throws `bad_request` if it isn't a
 * UUID.
 */
export function parsePageId({ url }: Pick<ConsoleContext, 'url'>): string | null {
  const id = url.searchParams.get(pageParameter) || null;
  if (id !== null && !isUuid(id))
    throw gatewayError('bad_request', { message: `${pageParameter}: must be the id of an entry in this list` });
  return id;
}

/**
 * Cuts rows to the size of a page. Pass up to `size + 1` rows, so that we know whether there's another page. Returns
 * the rows to show and the key of the next page for `pager`. The key is null on the last page.
 */
export function cutPage<Row>(
  rows: readonly Row[],
  size: number,
  keyOf: (row: Row) => string,
): { readonly shown: readonly Row[]; readonly next: string | null } {
  const shown = rows.slice(0, size);
  const last = shown.at(-1);
  return { shown, next: rows.length > size && last !== undefined ? keyOf(last) : null };
}

/** Reads rows after the key `after`. Fewer than `limit` rows mean that the list has ended. */
type ReadPage<Row> = (after: string | null, limit: number) => Promise<readonly Row[]>;

/** Renders rows as CSV. `columns` maps each header to the value of a row. */
export function csvFile<Row>(
  fileName: string,
  columns: Readonly<Record<string, (row: Row) => CsvValue>>,
  rows: Iterable<Row> | AsyncIterable<Row>,
): CsvResult {
  const values = Object.values(columns);
  const csv = (async function* () {
    for await (const row of rows) yield values.map((toValue) => toValue(row));
  })();
  return { kind: 'csv', fileName, header: Object.keys(columns), rows: csv };
}

/** Reads a list page by page until its end. */
export async function* allPages<Row>(readPage: ReadPage<Row>, keyOf: (row: Row) => string): AsyncGenerator<Row> {
  for (let after: string | null = null; ; ) {
    const rows: readonly Row[] = await readPage(after, csvPageSize);
    yield* rows;
    const last = rows.at(-1);
    if (rows.length < csvPageSize || last === undefined) return;
    after = keyOf(last);
  }
}
