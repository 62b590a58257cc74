/** Reads the records of an export page by page. */
import type { Queries } from '../../db/database.ts';
import type { RecordType } from './format.ts';

export interface ExportScope {
  readonly queries: Queries;
  readonly projectId: string;
  readonly subject: string | null;
  readonly exportedAt: string;
}

export interface ExportedRecord {
  readonly type: RecordType;
}

export type Page = readonly ExportedRecord[];

/** Reading and writing a page takes the event loop a few milliseconds, so larger pages would delay other calls. */
export const pageSize = 100;
export const firstId = '00000000-0000-0000-0000-000000000000';

/** Reads pages until one isn't full. `read` returns the page after the given position. */
export async function* readInPages<Position, Row>(
  first: Position,
  read: (after: Position) => Promise<readonly Row[]>,
  toPosition: (last: Row) => Position,
): AsyncGenerator<readonly Row[], void> {
  for (let after = first; ; ) {
    const rows = await read(after);
    yield rows;
    const last = rows.at(-1);
    if (!last || rows.length < pageSize) return;
    after = toPosition(last);
  }
}
