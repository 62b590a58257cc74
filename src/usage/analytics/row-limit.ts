/** Limits how many call rows we read for figures that neither the rollups nor the hourly aggregates can provide. */
import type { Queries } from '../../db/database.ts';
import { selectRollupSums } from '../rollups/rollup-sums.ts';
import { createParameters, fromFilterValue, whereCalls } from './call-filter.ts';
import type { FiguresRequest } from './figures-request.ts';
import type { Period } from './range.ts';

/** Reading this many call rows takes about 0.1 s. Pages of the console don't read more unless somebody asks for it. */
export const maxPageRows = 50_000;

export class TooManyCalls extends Error {
  override readonly name = 'TooManyCalls';
  readonly calls: number;

  constructor(calls: number) {
    super(`too many calls to read: ${calls}`);
    this.calls = calls;
  }
}

interface CallRows extends Pick<FiguresRequest, 'projectId' | 'filter'> {
  readonly periods: readonly Period[];
}

/** Throws `TooManyCalls` if we'd have to read more than `maxRows` rows. */
export async function assertRowsAtMost(queries: Queries, rows: CallRows, maxRows: number): Promise<void> {
  const calls = await countCalls(queries, rows);
  if (calls > maxRows) throw new TooManyCalls(calls);
}

/**
 * Estimates how many rows PostgreSQL has to read to find the matching calls, assuming that it uses the most selective
 * of its indexes on project, application and task.
 */
export async function countCalls(queries: Queries, { projectId, filter = {}, periods }: CallRows): Promise<number> {
  const { subject } = filter;
  const ofSubject = subject === undefined ? [] : [countCallsOfSubject(queries, projectId, subject, periods)];
  const counts = await Promise.all([
    ...ofSubject,
    ...(['project', 'source', 'task'] as const).map(async (scope) => {
      const value = scope === 'project' ? undefined : filter[scope];
      if (scope !== 'project' && value === undefined) return Number.POSITIVE_INFINITY;
      const parameters = createParameters();
      const request = { projectId, scope, periods, ...(value !== undefined && { names: [fromFilterValue(value)] }) };
      const [row] = await queries.query<{ calls: number | null }>(
        `select sum(calls)::bigint as calls from (${selectRollupSums(request, ['calls'], parameters)}) as part`,
        parameters.values,
      );
      return row?.calls ?? 0;
    }),
  ]);
  return Math.min(...counts);
}

/** Counts the end user's calls in the index, up to the number that a page may read. */
async function countCallsOfSubject(queries: Queries, projectId: string, subject: string, periods: readonly Period[]): Promise<number> {
  const parameters = createParameters();
  const period = { from: Math.min(...periods.map(({ from }) => from)), to: Math.max(...periods.map(({ to }) => to)) };
  const where = whereCalls({ projectId, ...period, filter: { subject } }, parameters);
  const [row] = await queries.query<{ calls: number }>(
    `select count(*) as calls from (select 1 from calls c where ${where} limit ${maxPageRows + 1}) as counted`,
    parameters.values,
  );
  return row?.calls ?? 0;
}
