/** Calls with their attempts, as returned by `GET /provision/teams/{project}/calls`. */
import type { AttemptError } from '../core/call.ts';
import { toUsd } from '../core/cost.ts';
import { formatTime } from '../core/time.ts';
import type { Queries } from '../db/database.ts';
import { createParameters } from './analytics/call-filter.ts';
import { attemptErrorSql } from './attempt-errors.ts';

export interface ListOptions {
  /** 1 to 1,000; 100 when absent. */
  readonly limit?: number | undefined;
  /** Only calls older than the one with this id, a UUID. */
  readonly before?: string | null | undefined;
  readonly taskId?: string | null | undefined;
  readonly source?: string | null | undefined;
  /** Only calls in which an attempt failed, while the reasons are kept. */
  readonly failed?: boolean | undefined;
}

export interface CallRow {
  readonly id: string;
  readonly created_at: string;
  /** Slug. */
  readonly project: string;
  /** Prefix of the key. */
  readonly key: string;
  /** Null for calls of the gateway itself. */
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
  readonly tokens: { readonly input: number; readonly cached_input: number; readonly cache_write: number; readonly output: number };
  readonly cost: number | null;
  /** True when the cost is null because a model has no price. */
  readonly price_unknown: boolean;
  readonly estimated: boolean;
  /** Admitted without its ceilings while the quota store was unavailable. */
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
  /** Ids of the memories that recall put into the prompt; empty also when the text of the call was deleted. */
  readonly recalled: readonly string[];
  readonly plan: unknown;
  readonly attempts: readonly AttemptRow[];
}

export interface AttemptRow {
  readonly n: number;
  readonly provider: string;
  readonly model: string;
  readonly status: number | null;
  readonly outcome: string;
  readonly wait_ms: number;
  readonly started_at: string;
  readonly first_byte_ms: number | null;
  readonly duration_ms: number;
  readonly cost: number | null;
  readonly price_unknown: boolean;
  /** Why it failed. Null if it did not, or its reason is not kept any more. */
  readonly error: AttemptError | null;
}

const defaultLimit = 100;
const maxLimit = 1_000;
/** Calls per statement; bounded because a statement blocks the single session of the embedded database. */
const pageSize = 250;

/** Newest first, of all projects if `projectId` is null. */
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

/** Null when the project has no such call. */
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

type StoredCall = Omit<CallRow, 'created_at' | 'tokens' | 'cost' | 'price_unknown' | 'attempts'> & {
  readonly startedAt: Date;
  readonly costNanos: number | null;
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly output: number;
};

/** Columns that the API returns under the same name have no alias. */
const callColumns = `
         id, (select slug from projects where projects.id = project_id) as project, key_prefix as key,
         (select name from virtual_keys where virtual_keys.id = key_id) as key_name, source, route, model_asked, model, status, code, outcome, stream, cache, estimated, unmetered, duration_ms,
         first_byte_ms, task_id, turn_id, agent_id, trigger_kind, trigger_detail, iteration, distil_saved,
         encode(subject_sha256, 'hex') as subject_sha256,
         coalesce((select recalled_items::text[] from call_texts where call_id = calls.id), '{}') as recalled, plan, started_at as "startedAt", cost_nanos as "costNanos",
         tokens_input as input, tokens_cached_input as "cachedInput",
         tokens_cache_write + tokens_cache_write_1h as "cacheWrite", tokens_output as output`;

function selectCalls(projectId: string | null, { before, taskId, source, failed, limit }: ListOptions) {
  const { values, add } = createParameters();
  /** The conditions by which calls and failed attempts are found in an index. */
  const range = (id: string): string[] => [
    'true',
    ...(projectId === null ? [] : [`project_id = ${add(projectId)}::uuid`]),
    ...(before ? [`${id} < ${add(before)}::uuid`] : []),
  ];
  const conditions = [
    ...range('id'),
    ...(taskId ? [`task_id = ${add(taskId)}::text`] : []),
    ...(source ? [`source = ${add(source)}::text`] : []),
  ];
  // Read from the few failed attempts, so that a page does not take a search through all calls.
  const failures = failed
    ? `join (select distinct call_id from attempt_errors where ${range('call_id').join(' and ')} order by call_id desc) failed
         on failed.call_id = calls.id`
    : '';
  const text = `select ${callColumns} from calls ${failures} where ${conditions.join(' and ')} order by id desc limit ${add(limit)}::integer`;
  return { text, values };
}

function toCallRow(stored: StoredCall, attempts: readonly StoredAttempt[]): CallRow {
  const { startedAt, costNanos, input, cachedInput, cacheWrite, output, ...row } = stored;
  return {
    ...row,
    created_at: formatTime(startedAt.getTime()),
    tokens: { input, cached_input: cachedInput, cache_write: cacheWrite, output },
    ...toCostJson(costNanos),
    attempts: attempts.map(toAttemptRow),
  };
}

type StoredAttempt = Omit<AttemptRow, 'started_at' | 'cost' | 'price_unknown'> & {
  readonly callId: string;
  readonly startedAt: Date;
  readonly costNanos: number | null;
};

const selectAttempts = `
  select call_id as "callId", n, provider, model, status, outcome, wait_ms, started_at as "startedAt", first_byte_ms, duration_ms,
         cost_nanos as "costNanos", ${attemptErrorSql} as error
    from attempts
    left join attempt_errors using (call_id, n)
   where call_id = any ($1::uuid[])
   order by call_id, n`;

function toAttemptRow({ callId: _callId, startedAt, costNanos, ...row }: StoredAttempt): AttemptRow {
  return { ...row, started_at: formatTime(startedAt.getTime()), ...toCostJson(costNanos) };
}

/** The cost of a model without a price is unknown, which differs from 0. */
function toCostJson(nanos: number | null): Pick<CallRow, 'cost' | 'price_unknown'> {
  return { cost: nanos === null ? null : toUsd(nanos), price_unknown: nanos === null };
}
