/** Reads and counts refused calls. All queries use an index and read a limited number of rows. */
import { minIdAt, timeOf } from '../../core/ids.ts';
import type { RefusalReason } from '../../core/refusal.ts';
import type { Queries } from '../../db/database.ts';
import { createParameters, type Parameters } from '../analytics/call-filter.ts';
import type { Period } from '../analytics/range.ts';
import type { RefusedRow } from './store-refusals.ts';

export interface RefusedCallRow extends Omit<RefusedRow, 'projectId'> {
  readonly project: string;
  /** Null if the gateway itself made the call. */
  readonly keyName: string | null;
}

export interface RefusalFilter {
  readonly reason?: RefusalReason | null | undefined;
  /** The prefix of the key. */
  readonly key?: string | null | undefined;
  readonly source?: string | null | undefined;
}

export interface RefusalSelection extends RefusalFilter, Partial<Period> {
  /** Null for all projects. */
  readonly projectId: string | null;
}

export interface RefusalPageRequest extends RefusalSelection {
  readonly before?: string | null | undefined;
  readonly limit: number;
}

const columns = `id, (select slug from projects where projects.id = project_id) as project, key_id as "keyId", key_prefix as "keyPrefix",
  (select name from virtual_keys where virtual_keys.id = key_id) as "keyName", source, requested_model as "requestedModel", route, status,
  code, reason, rule, rule_limit as "limit"`;

/** Newest first. */
export function listRefused(queries: Queries, { before, limit, ...selection }: RefusalPageRequest): Promise<RefusedCallRow[]> {
  const parameters = createParameters();
  const { add, values } = parameters;
  const where = [whereRows(selection, parameters), ...(before ? [`id < ${add(before)}::uuid`] : [])].join(' and ');
  return queries.query<RefusedCallRow>(
    `select ${columns} from refused_calls where ${where} order by id desc limit ${add(limit)}::integer`,
    values,
  );
}

/** Returns null if the project has no recorded refusal with this id. */
export async function findRefused(queries: Queries, projectId: string, id: string): Promise<RefusedCallRow | null> {
  const [row] = await queries.query<RefusedCallRow>(`select ${columns} from refused_calls where project_id = $1::uuid and id = $2::uuid`, [
    projectId,
    id,
  ]);
  return row ?? null;
}

export async function findRecorded(queries: Queries, projectId: string, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await queries.query<{ id: string }>('select id from refused_calls where project_id = $1::uuid and id = any($2::uuid[])', [
    projectId,
    ids,
  ]);
  return new Set(rows.map(({ id }) => id));
}

/**
 * Limits how many rows we count. We only have to count rows when filtering by application, because the stored counts
 * don't include it.
 */
export const maxCountedRows = 10_000;

export interface RefusalCounts {
  readonly calls: number;
  /** The number of refused calls that have a row of their own. The others were only counted. */
  readonly recorded: number;
  /** The most frequent reason comes first. */
  readonly byReason: readonly { readonly reason: RefusalReason; readonly calls: number }[];
}

/**
 * Counts refused calls in a period. There's a stored count for every minute, but it doesn't include the application. So
 * a filter by application counts up to `maxCountedRows` rows instead.
 */
export async function countRefused(queries: Queries, selection: RefusalSelection & Period): Promise<RefusalCounts> {
  const parameters = createParameters();
  const text = selection.source
    ? `select reason, count(*) as calls, count(*) as recorded
         from (select reason from refused_calls where ${whereRows(selection, parameters)} limit ${maxCountedRows}) as counted`
    : `select reason, sum(calls)::bigint as calls, sum(recorded)::bigint as recorded
         from refused_call_counts where ${whereCounts(selection, parameters)}`;
  const rows = await queries.query<{ reason: RefusalReason; calls: number; recorded: number }>(
    `${text} group by reason order by calls desc, reason`,
    parameters.values,
  );
  const sum = (name: 'calls' | 'recorded'): number => rows.reduce((total, row) => total + row[name], 0);
  return { calls: sum('calls'), recorded: sum('recorded'), byReason: rows.map(({ reason, calls }) => ({ reason, calls })) };
}

export interface RefusalsOfUnit {
  /** The index of the unit in `starts`. */
  readonly unit: number;
  readonly reason: RefusalReason;
  readonly calls: number;
}

/**
 * Counts refused calls by reason and unit of time. `starts` contains the start of each unit. A filter by application
 * counts up to `maxCountedRows` rows, because the stored counts don't include the application.
 */
export function countRefusedByUnit(
  queries: Queries,
  { starts, ...selection }: RefusalSelection & Period & { readonly starts: readonly number[] },
): Promise<RefusalsOfUnit[]> {
  const parameters = createParameters();
  const { add, values } = parameters;
  const text = selection.source
    ? `select width_bucket(id, ${add(starts.map(minIdAt))}::uuid[]) - 1 as unit, reason, count(*) as calls
         from (select id, reason from refused_calls where ${whereRows(selection, parameters)} order by id desc limit ${maxCountedRows}) as counted`
    : `select width_bucket(minute, ${add(starts.map((at) => new Date(at)))}::timestamptz[]) - 1 as unit, reason, sum(calls)::bigint as calls
         from refused_call_counts where ${whereCounts(selection, parameters)}`;
  return queries.query<RefusalsOfUnit>(`${text} group by 1, reason`, values);
}

function whereCounts({ projectId, from, to, reason, key }: RefusalSelection & Period, { add }: Parameters): string {
  const conditions = [
    `minute >= ${add(new Date(from))}::timestamptz and minute < ${add(new Date(to))}::timestamptz`,
    ...(projectId === null ? [] : [`project_id = ${add(projectId)}::uuid`]),
    ...(reason ? [`reason = ${add(reason)}::text`] : []),
    ...(key ? [`key_prefix = ${add(key)}::text`] : []),
  ];
  return conditions.join(' and ');
}

function whereRows({ projectId, from, to, reason, key, source }: RefusalSelection, { add }: Parameters): string {
  const conditions = [
    ...(projectId === null ? [] : [`project_id = ${add(projectId)}::uuid`]),
    ...(from === undefined ? [] : [`id >= ${add(minIdAt(from))}::uuid`]),
    ...(to === undefined ? [] : [`id < ${add(minIdAt(to))}::uuid`]),
    ...(reason ? [`reason = ${add(reason)}::text`] : []),
    ...(key ? [`key_prefix = ${add(key)}::text`] : []),
    ...(source ? [`source = ${add(source)}::text`] : []),
  ];
  return conditions.length === 0 ? 'true' : conditions.join(' and ');
}

/** Returns the start of a refused call in milliseconds since 1970. */
export function startOfRefused({ id }: Pick<RefusedCallRow, 'id'>): number {
  return timeOf(id);
}
