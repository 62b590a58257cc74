/** Keyset pagination: cuts a list into pages, and reads all pages for a CSV export. */
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { pageParameter } from './navigation.ts';
import type { ConsoleContext, CsvValue } from './route.ts';

const csvPageSize = 500;
/** For the messages of a conversation. Even with the longest messages, such a page stays below 150 kB. */
export const messagesPerPage = 25;

/**
 * Returns the id of the last row on the previous page, or null on the first page. Throws `bad_request` if it isn't a
 * UUID.
 */
export function parsePageId({ url }: Pick<ConsoleContext, 'url'>): string | null {
  const id = url.searchParams.get(pageParameter) || null;
  if (id !== null && !isUuid(id)) throw gatewayError('bad_request', { message: `${pageParameter}: must be an id of this list` });
  return id;
}

/**
 * Returns the rows of a page and the key of the next page for `pager`. Pass one row more than a page holds, so that we
 * know whether another page follows.
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

export interface CsvSource<Row> {
  /** Reads the rows after the one with the key `after`. Returns fewer than `limit` rows only at the end of the list. */
  readonly readPage: (after: string | null, limit: number) => Promise<readonly Row[]>;
  readonly keyOf: (row: Row) => string;
  readonly toCsv: (row: Row) => readonly CsvValue[];
}

/** Reads all rows of a list, one page at a time. */
export async function* csvRows<Row>({ readPage, keyOf, toCsv }: CsvSource<Row>): AsyncGenerator<readonly CsvValue[]> {
  for (let after: string | null = null; ; ) {
    const rows: readonly Row[] = await readPage(after, csvPageSize);
    yield* rows.map(toCsv);
    const last = rows.at(-1);
    if (rows.length < csvPageSize || last === undefined) return;
    after = keyOf(last);
  }
}
