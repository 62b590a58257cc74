/** Lists the calls in a time range without their text, newest first, with keyset pagination. */
import type { Outcome, Route } from '../../core/call.ts';
import { minIdAt, timeOf } from '../../core/ids.ts';
import type { Queries } from '../../db/database.ts';
import { findMatchingPeriods } from '../hourly-aggregates/matching-periods.ts';
import { type CallSelection, createParameters, namesOf, whereFilter } from './call-filter.ts';
import type { Period } from './range.ts';
import { assertRowsAtMost, countCalls, TooManyCalls } from './row-limit.ts';

export interface CallSummary {
  readonly id: string;
  readonly startedAt: Date;
  readonly keyPrefix: string;
  readonly source: string;
  readonly route: Route;
  readonly requestedModel: string;
  readonly model: string | null;
  readonly stream: boolean;
  readonly status: number;
  readonly code: string | null;
  readonly outcome: Outcome;
  readonly cache: 'hit' | 'miss' | null;
  /** Null if the cost is unknown. */
  readonly costNanos: number | null;
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly output: number;
  readonly durationMs: number;
  readonly firstByteMs: number | null;
  readonly taskId: string | null;
  readonly turnId: string | null;
  readonly agentId: string | null;
  readonly attempts: number;
}

export interface CallPageRequest extends CallSelection {
  /** Only lists calls that are older than this id. */
  readonly before?: string | null;
  readonly limit: number;
  /** How many call rows may be read if no index supports the filters. Beyond that, we throw `TooManyCalls`. */
  readonly maxRows?: number;
}

export interface CallPage {
  readonly calls: readonly CallSummary[];
  /** The value of `before` for the next page. Null on the last page. */
  readonly next: string | null;
}

export async function readCallPage(queries: Queries, { before = null, limit, ...selection }: CallPageRequest): Promise<CallPage> {
  // Read one more row to find out if there's another page.
  const wanted = limit + 1;
  const { from, to, filter = {}, maxRows } = selection;
  const range = { from, to: before === null ? to : Math.min(to, timeOf(before) + 1) };
  const names = namesOf(filter);
  // If there are no filters, or only one that has an index, that index already returns the calls in the right order.
  const isIndexed = names.length === 0 || (names.length === 1 && indexedFilters.has(names[0] ?? ''));
  const isWhole = isIndexed && (names.length > 0 || filter.own !== 'hide');
  const matching = isWhole ? null : await findMatchingPeriods(queries, { ...selection, ...range }, wanted);
  const rows: CallSummary[] = [];
  if (matching) {
    let candidates = 0;
    for await (const { periods, calls } of matching) {
      // Filters that aggregates don't support may reject nearly every row, so limit how many rows we read.
      if (maxRows !== undefined && candidates > maxRows)
        throw new TooManyCalls(await countCalls(queries, { ...selection, periods: [range] }));
      candidates += calls;
      rows.push(...(await readPeriods(queries, selection, periods, before, wanted - rows.length)));
      if (rows.length >= wanted) break;
    }
  } else {
    if (!isIndexed && maxRows !== undefined) await assertRowsAtMost(queries, { ...selection, periods: [range] }, maxRows);
    rows.push(...(await readPeriods(queries, selection, [range], before, wanted)));
  }
  const calls = rows.slice(0, limit);
  return { calls, next: rows.length > limit ? (calls.at(-1)?.id ?? null) : null };
}

const indexedFilters: ReadonlySet<string> = new Set(['source', 'task', 'subject']);

function readPeriods(
  queries: Queries,
  { projectId, filter = {} }: CallSelection,
  periods: readonly Period[],
  before: string | null,
  limit: number,
): Promise<CallSummary[]> {
  const parameters = createParameters();
  const { add, addIds } = parameters;
  const count = `${add(limit)}::integer`;
  const select = (from: string, to: string): string => `
    select c.id, c.started_at as "startedAt", c.key_prefix as "keyPrefix", c.source, c.route, c.model_asked as "requestedModel", c.model,
           c.stream, c.status, c.code, c.outcome, c.cache, c.cost_nanos as "costNanos", c.tokens_input as input,
           c.tokens_cached_input as "cachedInput", c.tokens_cache_write + c.tokens_cache_write_1h as "cacheWrite",
           c.tokens_output as output, c.duration_ms as "durationMs", c.first_byte_ms as "firstByteMs", c.task_id as "taskId",
           c.turn_id as "turnId", c.agent_id as "agentId"
      from calls c
     where c.project_id = ${add(projectId)}::uuid and c.id >= ${from} and c.id < ${to}
       and ${whereFilter(filter, parameters)} ${before === null ? '' : `and c.id < ${add(before)}::uuid`}
     order by c.id desc
     limit ${count}`;
  const [only] = periods;
  const listed =
    only !== undefined && periods.length === 1
      ? select(`${add(minIdAt(only.from))}::uuid`, `${add(minIdAt(only.to))}::uuid`)
      : `select listed.* from unnest(${addIds(periods, 'from')}, ${addIds(periods, 'to')}) as period (first, after)
          cross join lateral (${select('period.first', 'period.after')}) as listed
          order by listed.id desc limit ${count}`;
  return queries.query<CallSummary>(
    `select page.*, (select count(*) from attempts where attempts.call_id = page.id) as attempts
       from (${listed}) as page
      order by page.id desc`,
    parameters.values,
  );
}

/** Calls that aren't stored in this project are missing from the result. */
export async function readCallsById(
  queries: Queries,
  projectId: string,
  callIds: readonly string[],
): Promise<ReadonlyMap<string, Pick<CallSummary, 'source' | 'requestedModel' | 'status' | 'outcome'>>> {
  const rows = await queries.query<Pick<CallSummary, 'id' | 'source' | 'requestedModel' | 'status' | 'outcome'>>(
    `select c.id, c.source, c.model_asked as "requestedModel", c.status, c.outcome from calls c
      where c.id = any($1::uuid[]) and c.project_id = $2::uuid`,
    [callIds, projectId],
  );
  return new Map(rows.map(({ id, ...call }) => [id, call]));
}

/**
 * The number of calls per statement. It's small because a statement blocks the only session of the embedded database.
 */
const streamedPage = 250;

export async function* streamCalls(queries: Queries, selection: CallSelection): AsyncGenerator<CallSummary> {
  let before: string | null = null;
  do {
    const page: CallPage = await readCallPage(queries, { ...selection, before, limit: streamedPage });
    yield* page.calls;
    before = page.next;
  } while (before !== null);
}
