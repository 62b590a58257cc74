/** Calls of a range, newest first, by keyset pages. No text of a call is read. */
import type { Outcome, Route } from '../../core/call.ts';
import type { Queries } from '../../db/database.ts';
import { type CallSelection, createParameters, whereCalls } from './call-filter.ts';

export interface CallSummary {
  readonly id: string;
  readonly startedAt: Date;
  readonly keyPrefix: string;
  readonly source: string;
  readonly route: Route;
  readonly modelAsked: string;
  readonly model: string | null;
  readonly stream: boolean;
  readonly status: number;
  readonly code: string | null;
  readonly outcome: Outcome;
  readonly cache: 'hit' | 'miss' | null;
  /** Null when unknown. */
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
  /** Only calls older than this id. */
  readonly before?: string | null;
  readonly limit: number;
}

export interface CallPage {
  readonly calls: readonly CallSummary[];
  /** `before` of the next page. Null on the last page. */
  readonly next: string | null;
}

export async function readCallPage(queries: Queries, { before = null, limit, ...selection }: CallPageRequest): Promise<CallPage> {
  const parameters = createParameters();
  const where = whereCalls(selection, parameters);
  const older = before === null ? '' : `and c.id < ${parameters.add(before)}::uuid`;
  // One row more shows whether there is a next page.
  const rows = await queries.query<CallSummary>(
    `select page.*, (select count(*) from attempts where attempts.call_id = page.id) as attempts
       from (
         select c.id, c.started_at as "startedAt", c.key_prefix as "keyPrefix", c.source, c.route, c.model_asked as "modelAsked", c.model,
                c.stream, c.status, c.code, c.outcome, c.cache, c.cost_nanos as "costNanos", c.tokens_input as input,
                c.tokens_cached_input as "cachedInput", c.tokens_cache_write + c.tokens_cache_write_1h as "cacheWrite",
                c.tokens_output as output, c.duration_ms as "durationMs", c.first_byte_ms as "firstByteMs", c.task_id as "taskId",
                c.turn_id as "turnId", c.agent_id as "agentId"
           from calls c
          where ${where} ${older}
          order by c.id desc
          limit ${parameters.add(limit + 1)}::integer
       ) as page
      order by page.id desc`,
    parameters.values,
  );
  const calls = rows.slice(0, limit);
  return { calls, next: rows.length > limit ? (calls.at(-1)?.id ?? null) : null };
}

/** Calls per statement; bounded because a statement blocks the single session of the embedded database. */
const streamedPage = 250;

/** All calls of the selection, newest first, as they are read. */
export async function* streamCalls(queries: Queries, selection: CallSelection): AsyncGenerator<CallSummary> {
  let before: string | null = null;
  do {
    const page: CallPage = await readCallPage(queries, { ...selection, before, limit: streamedPage });
    yield* page.calls;
    before = page.next;
  } while (before !== null);
}
