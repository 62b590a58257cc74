/** Parses call filters and translates them to SQL conditions on `calls c`. */
import { internalKeyId, memoryApplication, outcomes, routes } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { minIdAt } from '../../core/ids.ts';
import { hashSubjectHex } from '../../core/subject.ts';
import { trim } from '../../core/trim.ts';
import type { Period } from './range.ts';

/** A filter with this value finds calls that have no value for the attribute. */
export const noValue = '-';

/**
 * Converts a stored value to a filter value. Values that consist of hyphens get another hyphen, because a task named
 * `-` would otherwise look like `noValue`.
 */
export function toFilterValue(value: string | null): string {
  if (value === null) return noValue;
  return /^-+$/.test(value) ? `${value}-` : value;
}

/**
 * Matches calls from the playground. Anyone can send the same trigger and application, but only the gateway can use the
 * internal key.
 */
export const isPlaygroundSql = `c.trigger_kind = 'playground' and c.key_id = '${internalKeyId}'`;

/** The id of the person who made a call in the playground. Null for all other calls. */
export const personSql = `(case when ${isPlaygroundSql} then c.trigger_detail end)`;

/**
 * Filters on a single column. For nullable columns such as `task`, `model` and `code`, the value `-` finds calls
 * without a value.
 */
const columns = {
  source: 'c.source',
  model: 'c.model',
  asked: 'c.model_asked',
  key: 'c.key_prefix',
  task: 'c.task_id',
  turn: 'c.turn_id',
  agent: 'c.agent_id',
  trigger: 'c.trigger_kind',
  route: 'c.route',
  code: 'c.code',
  cache: 'c.cache',
  outcome: 'c.outcome',
  person: personSql,
} as const;

type ColumnFilter = keyof typeof columns;

/**
 * Filters on a tier in the call's plan. `canary` finds calls that try the tier's canary, and `control` finds the tier's
 * other calls.
 */
const planFilters = ['canary', 'control'] as const;
type PlanFilter = (typeof planFilters)[number];

/** Maps each filter that excludes calls to the filter that selects exactly those calls. */
const exclusions = {
  not_source: 'source',
  not_model: 'model',
  not_key: 'key',
  not_code: 'code',
  not_status: 'status',
} as const;
export type Exclusion = keyof typeof exclusions;

/** Filters for the minimum or maximum of a column. Latencies are in milliseconds and costs in USD. */
const bounds = {
  min_ms: { sql: 'c.duration_ms >=', scale: 1 },
  max_ms: { sql: 'c.duration_ms <=', scale: 1 },
  min_cost: { sql: 'c.cost_nanos >=', scale: 1e9 },
  max_cost: { sql: 'c.cost_nanos <=', scale: 1e9 },
} as const;
type BoundFilter = keyof typeof bounds;

/** A caller that disconnects doesn't make the call an error. */
export const isErrorSql = (row: string): string => `${row}.outcome not in ('ok', 'client_left')`;

/**
 * Returns 1 if the call has a second attempt, and 0 otherwise. We count because with `exists`, PostgreSQL would load
 * all attempts into a hash table.
 */
export const failoversSql = '(select count(*) from attempts second where second.call_id = c.id and second.n = 2)';

/**
 * Filters with a fixed set of values. Each value has an SQL condition, which works on call rows (alias `c`) and on
 * aggregates (alias `stored`).
 */
const conditions = {
  result: { ok: (row) => `${row}.outcome = 'ok'`, error: (row) => isErrorSql(row) },
  failover: {
    yes: (row) => (row === 'c' ? `${failoversSql} > 0` : 'stored.failed_over'),
    no: (row) => (row === 'c' ? `${failoversSql} = 0` : 'not stored.failed_over'),
  },
  price: {
    unknown: (row) => (row === 'c' ? 'c.cost_nanos is null' : 'not stored.priced'),
    known: (row) => (row === 'c' ? 'c.cost_nanos is not null' : 'stored.priced'),
  },
  /**
   * Hides or shows the gateway's own calls for project memory. This filter needs call rows, because stored sums don't
   * distinguish these calls.
   */
  own: { hide: () => `c.source <> '${memoryApplication}'`, show: () => 'true' },
} as const satisfies Readonly<Record<string, Readonly<Record<string, (row: FilteredRow) => string>>>>;

type FilteredRow = 'c' | 'stored';
type ConditionFilter = keyof typeof conditions;

export const filterNames: readonly string[] = [
  ...Object.keys(columns),
  ...planFilters,
  ...['status', 'subject', 'attempted'],
  ...Object.keys(exclusions),
  ...Object.keys(bounds),
  ...Object.keys(conditions),
];

/**
 * All filters are optional. `subject` is an end user or their SHA-256 in hex. `attempted` is a model that was tried,
 * even if it didn't respond.
 */
export type CallFilter = Readonly<
  Partial<Record<ColumnFilter | PlanFilter | ConditionFilter | Exclusion | BoundFilter | 'status' | 'subject' | 'attempted', string>>
>;

/** Returns the names of the filters that are set. `own` isn't included, because it isn't an attribute of a call. */
export function namesOf({ own: _own, ...filter }: CallFilter): string[] {
  return Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [name]));
}

/** Hides the gateway's own calls, unless the filter selects an application or already has a value for `own`. */
export function hideOwnCalls(filter: CallFilter): CallFilter {
  return filter.own === undefined && filter.source === undefined ? { ...filter, own: 'hide' } : filter;
}

/** Restricts the filter to the gateway's own calls. Returns null if it excludes all of them. */
export function onlyOwnCalls({ own: _own, ...filter }: CallFilter): CallFilter | null {
  return intersect(filter, { source: memoryApplication });
}

/** Returns null if the filters contradict each other. */
export function intersect(one: CallFilter, other: CallFilter): CallFilter | null {
  const isContrary = Object.entries(other).some(([name, value]) => {
    const known = Object.entries(one).find(([each]) => each === name)?.[1];
    const excluded = Object.entries(exclusions).find(([, positive]) => positive === name)?.[0];
    return (known !== undefined && known !== value) || Object.entries(one).some(([each, out]) => each === excluded && out === value);
  });
  return isContrary ? null : { ...one, ...other };
}

const accepted: Readonly<Record<string, readonly string[]>> = {
  route: routes,
  outcome: outcomes,
  cache: ['hit', 'miss', noValue],
  ...Object.fromEntries(Object.entries(conditions).map(([name, values]) => [name, Object.keys(values)])),
};

/**
 * Filter values such as the task id originally come from request headers, so none of them can be longer than the
 * longest possible header.
 */
const maxLength = 16_384;

/** Empty filters are ignored. Throws `bad_request` if a value is invalid. */
export function parseCallFilter(query: Pick<URLSearchParams, 'get'>): CallFilter {
  const entries = filterNames.flatMap((name) => {
    // Trim spaces, tabs and line breaks, because header values are stored without them. Other white space can be part
    // of a value.
    const value = trim(query.get(name) ?? '', ' \t\r\n');
    return value === '' ? [] : [[name, checkValue(name, value)] as const];
  });
  return Object.fromEntries(entries);
}

function checkValue(name: string, value: string): string {
  const invalid = (message: string) => gatewayError('bad_request', { issues: [{ path: name, message }] });
  const choices = accepted[name];
  if (choices && !choices.includes(value)) throw invalid(`must be one of ${choices.join(', ')}`);
  if ((name === 'status' || name === 'not_status') && !/^[1-5](?:\d\d|xx)$/.test(value)) {
    throw invalid('must be a status such as 429, or a class such as 4xx');
  }
  if (isKeyOf(bounds, name) && !/^\d{1,9}(?:\.\d{1,9})?$/.test(value)) {
    throw invalid('must be a number, for example 0.5');
  }
  if (value.length > maxLength || /[\0\p{Cs}]/u.test(value)) throw invalid(`must be text of at most ${maxLength} characters`);
  return value;
}

export interface CallSelection extends Period {
  readonly projectId: string;
  readonly filter?: CallFilter;
  readonly signal?: AbortSignal;
}

export type Parameters = ReturnType<typeof createParameters>;

export function createParameters() {
  const values: unknown[] = [];
  const add = (value: unknown): string => `$${values.push(value)}`;
  return {
    values,
    add,
    /**
     * Adds an array parameter. For the start or the end of each period, it contains the lowest possible call id at that
     * time.
     */
    addIds: (periods: readonly Period[], side: keyof Period): string => `${add(periods.map((period) => minIdAt(period[side])))}::uuid[]`,
    /** Adds an array parameter that contains the start or the end of each period as a time. */
    addTimes: (periods: readonly Period[], side: keyof Period): string =>
      `${add(periods.map((period) => new Date(period[side])))}::timestamptz[]`,
  };
}

/**
 * Returns a `where` condition on `calls c` for the filters and a range of ids, which can use the index on (project_id,
 * id).
 */
export function whereCalls({ projectId, from, to, filter = {} }: CallSelection, parameters: Parameters): string {
  const { add } = parameters;
  const range = [`c.project_id = ${add(projectId)}::uuid`, `c.id >= ${add(minIdAt(from))}::uuid`, `c.id < ${add(minIdAt(to))}::uuid`];
  return [...range, whereFilter(filter, parameters)].join(' and ');
}

/**
 * Like `whereCalls`, but leaves out the conditions on the project and the range of ids. Also works for aggregates
 * (alias `stored`) instead of calls (alias `c`).
 */
export function whereFilter(filter: CallFilter, { add }: Parameters, row: FilteredRow = 'c'): string {
  const terms = ['true'];
  for (const [name, value] of Object.entries(filter)) {
    if (value === undefined) continue;
    if (isKeyOf(columns, name)) {
      terms.push(matchesValue(row === 'c' ? columns[name] : `stored.${name}`, value, { add }));
    } else if (isKeyOf(conditions, name)) {
      const choices: Readonly<Record<string, (row: FilteredRow) => string>> = conditions[name];
      const condition = choices[value];
      if (condition) terms.push(condition(row));
    } else if (planFilters.some((filter) => filter === name)) {
      terms.push(`c.plan @> ${add(JSON.stringify([{ [name]: value }]))}::jsonb`);
    } else if (name === 'status' || name === 'not_status') {
      const [low, high] = statusBounds(value);
      terms.push(`${row}.status ${name === 'status' ? '' : 'not '}between ${add(low)}::integer and ${add(high)}::integer`);
    } else if (isKeyOf(exclusions, name)) {
      const excluded = exclusions[name] as ColumnFilter;
      terms.push(differsFrom(row === 'c' ? columns[excluded] : `stored.${excluded}`, value, { add }));
    } else if (isKeyOf(bounds, name)) {
      const { sql, scale } = bounds[name];
      terms.push(`${sql} ${add(Math.round(Number(value) * scale))}::bigint`);
    } else if (name === 'attempted') {
      // Count the rows, because with `exists`, PostgreSQL would load all attempts into a hash table.
      terms.push(
        `(select count(*) from attempts tried where tried.call_id = c.id and tried.provider || '/' || tried.model = ${add(value)}::text) > 0`,
      );
    } else if (name === 'subject') {
      terms.push(`c.subject_sha256 = ${subjectHash(value, { add })}`);
    }
  }
  return terms.join(' and ');
}

export function subjectHash(value: string, { add }: Pick<Parameters, 'add'>): string {
  return `decode(${add(/^[0-9a-f]{64}$/.test(value) ? value : hashSubjectHex(value))}::text, 'hex')`;
}

/**
 * Splits a filter that excludes an application or key into two: the same filter without the exclusion, and a filter for
 * the excluded calls. Stored sums don't let us exclude anything, so we subtract the sums of the excluded calls instead.
 * Returns null if the filter excludes no application or key.
 */
export function splitExclusion(
  filter: CallFilter,
): { readonly rest: CallFilter; readonly excluded: CallFilter; readonly isOwn: boolean } | null {
  const { own, ...others } = filter;
  if (own === 'hide') return { rest: others, excluded: { source: memoryApplication }, isOwn: true };
  if (own !== undefined) return splitExclusion(others);
  const { not_source: source, ...withSource } = filter;
  if (source !== undefined) return { rest: withSource, excluded: { source }, isOwn: false };
  const { not_key: key, ...withKey } = filter;
  return key === undefined ? null : { rest: withKey, excluded: { key }, isOwn: false };
}

function statusBounds(value: string): readonly [number, number] {
  const first = Number(value.slice(0, 1)) * 100;
  return value.endsWith('xx') ? [first, first + 99] : [Number(value), Number(value)];
}

export function matchesValue(column: string, value: string, { add }: Pick<Parameters, 'add'>): string {
  const stored = fromFilterValue(value);
  return stored === null ? `${column} is null` : `${column} = ${add(stored)}::text`;
}

function differsFrom(column: string, value: string, { add }: Pick<Parameters, 'add'>): string {
  const stored = fromFilterValue(value);
  return stored === null ? `${column} is not null` : `${column} is distinct from ${add(stored)}::text`;
}

export function fromFilterValue(value: string): string | null {
  if (value === noValue) return null;
  return /^--+$/.test(value) ? value.slice(1) : value;
}

function isKeyOf<Shape extends object>(shape: Shape, name: string): name is Extract<keyof Shape, string> {
  return Object.hasOwn(shape, name);
}
