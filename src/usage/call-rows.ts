/** Reads calls and their attempts in the format of `GET /provision/teams/{project}/calls`. */
import { type AttemptError, memoryApplication } from '../core/call.ts';
import { toUsd } from '../core/cost.ts';
import { formatTime } from '../core/time.ts';
import type { Queries } from '../db/database.ts';
import { createParameters, subjectHash } from './analytics/call-filter.ts';
import { attemptErrorSql } from './attempt-errors.ts';

export interface ListOptions {
  /** From 1 to 1,000. Defaults to 100. */
  readonly limit?: number | undefined;
  readonly before?: string | null | undefined;
  readonly taskId?: string | null | undefined;
  readonly source?: string | null | undefined;
  /** Only lists calls for which a vendor has returned this request id. */
  readonly requestId?: string | null | undefined;
  readonly subject?: string | null | undefined;
  /** Leaves out the gateway's own calls for project memory. */
  readonly hideOwn?: boolean | undefined;
  /** Only lists calls with a failed attempt whose reason hasn't been deleted yet. */
  readonly failed?: boolean | undefined;
}

export type CallRow = ReturnType<typeof toCallRow>;

const defaultLimit = 100;
const maxLimit = 1_000;
/**
 * The number of calls per statement. It's small because a statement blocks the only session of the embedded database.
 */
const pageSize = 250;

/** Newest first. `projectId` is null for the calls of all projects. */
export async function listCalls(database: Queries, projectId: string | null, options: ListOptions = {}): Promise<CallRow[]> {
  const { limit = defaultLimit, before = null } = options;
  const bounded = Math.max(1, Math.min(maxLimit, Math.trunc(limit)));
  const rows: CallRow[] = [];
  for (;;) {
    const requested = Math.min(pageSize, bounded - rows.length);
    const { text, values } = selectCalls(projectId, { ...options, before: rows.at(-1)?.id ?? before, limit: requested });
    const page = await withAttempts(database, await database.query<StoredCall>(text, values));
    rows.push(...page);
    if (page.length < requested || rows.length === bounded) return rows;
  }
}

/** Returns null if the project has no such call. */
export async function findCall(database: Queries, projectId: string, id: string): Promise<CallRow | null> {
  const [call] = await withAttempts(
    database,
    await database.query<StoredCall>(`select ${callColumns} from calls where project_id = $1::uuid and id = $2::uuid`, [projectId, id]),
  );
  return call ?? null;
}

async function withAttempts(database: Queries, calls: readonly StoredCall[]): Promise<CallRow[]> {
  const attempts = await database.query<StoredAttempt>(selectAttempts, [calls.map(({ id }) => id)]);
  const byCall = Map.groupBy(attempts, ({ callId }) => callId);
  return calls.map((call) => toCallRow(call, byCall.get(call.id) ?? []));
}

interface StoredCall {
  readonly id: string;
  readonly startedAt: Date;
  /** The project's slug. */
  readonly project: string;
  /** The prefix of the key. */
  readonly key: string;
  /** Null if the gateway itself made the call. */
  readonly key_name: string | null;
  readonly source: string;
  readonly route: string;
  readonly model_asked: string;
  readonly model: string | null;
  readonly status: number;
  readonly code: string | null;
  readonly outcome: string;
  readonly stream: boolean;
  readonly cache: string | null;
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly output: number;
  /** Null if the cost is unknown because a model has no price. */
  readonly costNanos: number | null;
  readonly estimated: boolean;
  /** True if the call was admitted without checking its ceilings, because the quota store was unavailable. */
  readonly unmetered: boolean;
  readonly duration_ms: number;
  readonly first_byte_ms: number | null;
  readonly task_id: string | null;
  readonly turn_id: string | null;
  readonly agent_id: string | null;
  readonly trigger_kind: string | null;
  readonly trigger_detail: string | null;
  readonly iteration: number | null;
  readonly distil_saved: number | null;
  readonly subject_sha256: string | null;
  /** The ids of the memories in the prompt. Empty if there weren't any, or if the call's text has been deleted. */
  readonly recalled: readonly string[];
  readonly plan: unknown;
}

/** Most columns have the same name in the API. `toCallRow` converts the others, e.g. `startedAt`. */
const callColumns = `
         id, (select slug from projects where projects.id = project_id) as project, key_prefix as key,
         (select name from virtual_keys where virtual_keys.id = key_id) as key_name, source, route, model_asked, model, status, code, outcome, stream, cache, estimated, unmetered, duration_ms,
         first_byte_ms, task_id, turn_id, agent_id, trigger_kind, trigger_detail, iteration, distil_saved,
         encode(subject_sha256, 'hex') as subject_sha256,
         coalesce((select recalled_items::text[] from call_texts where call_id = calls.id), '{}') as recalled, plan, started_at as "startedAt", cost_nanos as "costNanos",
         tokens_input as input, tokens_cached_input as "cachedInput",
         tokens_cache_write + tokens_cache_write_1h as "cacheWrite", tokens_output as output`;

function selectCalls(projectId: string | null, { before, taskId, source, requestId, subject, hideOwn, failed, limit }: ListOptions) {
  const { values, add } = createParameters();
  /** These conditions can be used for calls and for failed attempts, because both tables have suitable indexes. */
  const range = (id: string): string[] => [
    'true',
    ...(projectId === null ? [] : [`project_id = ${add(projectId)}::uuid`]),
    ...(before ? [`${id} < ${add(before)}::uuid`] : []),
  ];
  const conditions = [
    ...range('id'),
    ...(taskId ? [`task_id = ${add(taskId)}::text`] : []),
    ...(source ? [`source = ${add(source)}::text`] : []),
    // With an array, PostgreSQL looks up each id. With a subquery, it may scan all calls from the newest to the oldest.
    ...(requestId ? [`id = any (array(select call_id from attempts where request_id = ${add(requestId)}::text))`] : []),
    ...(subject ? [`subject_sha256 = ${subjectHash(subject, { add })}`] : []),
    // The index on end users starts with the project, so PostgreSQL needs a condition on the project to use it.
    ...(subject && projectId === null ? ['project_id = any (array(select projects.id from projects))'] : []),
    ...(hideOwn ? [`source <> '${memoryApplication}'`] : []),
  ];
  // Failed attempts are rare, so start with those instead of searching all calls.
  const failures = failed
    ? `join (select distinct call_id from attempt_errors where ${range('call_id').join(' and ')} order by call_id desc) failed
         on failed.call_id = calls.id`
    : '';
  const text = `select ${callColumns} from calls ${failures} where ${conditions.join(' and ')} order by id desc limit ${add(limit)}::integer`;
  return { text, values };
}

function toCallRow(stored: StoredCall, attempts: readonly StoredAttempt[]) {
  const { startedAt, costNanos, input, cachedInput, cacheWrite, output, ...row } = stored;
  return {
    ...row,
    created_at: formatTime(startedAt.getTime()),
    tokens: { input, cached_input: cachedInput, cache_write: cacheWrite, output },
    ...toCostJson(costNanos),
    attempts: attempts.map(toAttemptRow),
  };
}

interface StoredAttempt {
  readonly callId: string;
  readonly n: number;
  readonly provider: string;
  readonly model: string;
  /** Null if the provider has no pool. */
  readonly member: string | null;
  readonly status: number | null;
  readonly outcome: string;
  readonly request_id: string | null;
  readonly wait_ms: number;
  readonly startedAt: Date;
  readonly first_byte_ms: number | null;
  readonly duration_ms: number;
  readonly costNanos: number | null;
  /** Why the attempt failed. Null if it succeeded, or if the reason has been deleted. */
  readonly error: AttemptError | null;
}

const selectAttempts = `
  select call_id as "callId", n, provider, model, member, status, outcome, request_id, wait_ms, started_at as "startedAt", first_byte_ms, duration_ms,
         cost_nanos as "costNanos", ${attemptErrorSql} as error
    from attempts
    left join attempt_errors using (call_id, n)
   where call_id = any ($1::uuid[])
   order by call_id, n`;

function toAttemptRow({ callId: _callId, startedAt, costNanos, ...row }: StoredAttempt) {
  return { ...row, started_at: formatTime(startedAt.getTime()), ...toCostJson(costNanos) };
}

/** If the model has no price, the cost is null and `price_unknown` is true. */
function toCostJson(nanos: number | null) {
  return { cost: nanos === null ? null : toUsd(nanos), price_unknown: nanos === null };
}
