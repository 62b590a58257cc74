/** How many call rows a page reads for figures that neither rollups nor cells have. */
import type { Queries } from '../../db/database.ts';
import { selectParts } from '../rollups/parts.ts';
import { createParameters, fromFilterValue } from './call-filter.ts';
import type { FiguresRequest } from './figures-request.ts';
import type { Period } from './range.ts';

/** Takes about 0.1 s. */
export const maxPageRows = 50_000;

/** More calls than the request allows would have to be read. */
export class TooManyCalls extends Error {
  override readonly name = 'TooManyCalls';
  readonly calls: number;

  constructor(calls: number) {
    super(`${calls} calls would have to be read`);
    this.calls = calls;
  }
}

interface CallRows extends Pick<FiguresRequest, 'projectId' | 'filter'> {
  readonly periods: readonly Period[];
}

/** Throws `TooManyCalls`. */
export async function assertRowsAtMost(queries: Queries, rows: CallRows, maxRows: number): Promise<void> {
  const calls = await countCalls(queries, rows);
  if (calls > maxRows) throw new TooManyCalls(calls);
}

/** How many rows an index reads for the calls that match filters: all of the periods, those of the application or those of the task, whichever are fewest. */
export async function countCalls(queries: Queries, { projectId, filter = {}, periods }: CallRows): Promise<number> {
  const counts = await Promise.all(
    (['project', 'source', 'task'] as const).map(async (scope) => {
      const value = scope === 'project' ? undefined : filter[scope];
      if (scope !== 'project' && value === undefined) return Number.POSITIVE_INFINITY;
      const parameters = createParameters();
      const request = { projectId, scope, periods, ...(value !== undefined && { names: [fromFilterValue(value)] }) };
      const [row] = await queries.query<{ calls: number | null }>(
        `select sum(calls)::bigint as calls from (${selectParts(request, ['calls'], parameters)}) as part`,
        parameters.values,
      );
      return row?.calls ?? 0;
    }),
  );
  return Math.min(...counts);
}
