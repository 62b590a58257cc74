/** Parses the filters that select the calls of a view, and turns them into SQL conditions on `calls c`. */
import { outcomes, routes } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { minIdAt } from '../../core/ids.ts';
import type { Period } from './range.ts';

/** The filter value that selects calls without a value. */
export const noValue = '-';

/**
 * Converts a stored value to the filter that selects it. If the value consists only of hyphens, such as a task named
 * `-`, we append another hyphen so that it isn't mistaken for `noValue`.
 */
export function toFilterValue(value: string | null): string {
  if (value === null) return noValue;
  return /^-+$/.test(value) ? `${value}-` : value;
}

/**
 * Filters that compare a column. If the column is nullable (such as `task`, `model` or `code`), the filter accepts `-`
 * for calls without a value.
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
} as const;

type ColumnFilter = keyof typeof columns;

/** Filters that look for a tier in the plan of a call. `control` selects the calls of a tier that don't try its canary. */
const planFilters = ['canary', 'control'] as const;
type PlanFilter = (typeof planFilters)[number];

/** A call counts as an error if it didn't succeed, unless the caller disconnected. */
export const isErrorSql = (row: string): string => `${row}.outcome not in ('ok', 'client_left')`;

/**
 * Counts a call that has more than one attempt. We don't use `exists`, because PostgreSQL would read every attempt
 * into a hash table.
 */
export const failoversSql = '(select count(*) from attempts second where second.call_id = c.id and second.n = 2)';

/**
 * Filters with a fixed set of values. Each value has an SQL condition, either on call rows `c` or on aggregates, which
 * have the alias `stored`.
 */
const conditions = {
  /** See `isErrorSql` for what counts as an error. */
  result: { ok: (row) => `${row}.outcome = 'ok'`, error: (row) => isErrorSql(row) },
  failover: {
    yes: (row) => (row === 'c' ? `${failoversSql} > 0` : 'stored.failed_over'),
    no: (row) => (row === 'c' ? `${failoversSql} = 0` : 'not stored.failed_over'),
  },
  price: {
    unknown: (row) => (row === 'c' ? 'c.cost_nanos is null' : 'not stored.priced'),
    known: (row) => (row === 'c' ? 'c.cost_nanos is not null' : 'stored.priced'),
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, (row: FilteredRow) => string>>>>;

type FilteredRow = 'c' | 'stored';
type ConditionFilter = keyof typeof conditions;

export const filterNames: readonly string[] = [...Object.keys(columns), ...planFilters, 'status', ...Object.keys(conditions)];

/** The value of each filter by its name. A filter that is absent or undefined selects all calls. */
export type CallFilter = Readonly<Partial<Record<ColumnFilter | PlanFilter | ConditionFilter | 'status', string>>>;

export function namesOf(filter: CallFilter): string[] {
  return Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [name]));
}

const accepted: Readonly<Record<string, readonly string[]>> = {
  route: routes,
  outcome: outcomes,
  cache: ['hit', 'miss', noValue],
  ...Object.fromEntries(Object.entries(conditions).map(([name, values]) => [name, Object.keys(values)])),
};

/** The maximum size of a request header, because values such as the task id come from headers. */
const maxLength = 16_384;

/** Parses the filters of a query string and ignores empty values. Throws `bad_request` if a value is invalid. */
export function parseCallFilter(query: Pick<URLSearchParams, 'get'>): CallFilter {
  const entries = filterNames.flatMap((name) => {
    // Values come from headers, which can't begin or end with these characters. Other white space may be part of a
    // value.
    const value = query.get(name)?.replaceAll(/^[ \t\r\n]+|[ \t\r\n]+$/g, '') ?? '';
    return value === '' ? [] : [[name, checkValue(name, value)] as const];
  });
  return Object.fromEntries(entries);
}

function checkValue(name: string, value: string): string {
  const choices = accepted[name];
  if (choices && !choices.includes(value)) throw gatewayError('bad_request', { message: `${name}: must be one of ${choices.join(', ')}` });
  if (name === 'status' && !/^[1-5](?:\d\d|xx)$/.test(value)) {
    throw gatewayError('bad_request', { message: 'status: must be a status such as 429, or a class such as 4xx' });
  }
  if (value.length > maxLength || /[\0\p{Cs}]/u.test(value))
    throw gatewayError('bad_request', { message: `${name}: is too long, or is not text` });
  return value;
}

export interface CallSelection extends Period {
  readonly projectId: string;
  readonly filter?: CallFilter;
  /** Aborted when the client disconnects. */
  readonly signal?: AbortSignal;
}

/** Collects the parameters of an SQL statement. */
export interface Parameters {
  readonly values: unknown[];
  /** Adds a value and returns its placeholder, such as `$3`. */
  add(value: unknown): string;
}

export function createParameters(): Parameters {
  const values: unknown[] = [];
  return { values, add: (value) => `$${values.push(value)}` };
}

/** Returns the `where` condition on `calls c`: a range of the index (project_id, id), and the filters. */
export function whereCalls({ projectId, from, to, filter = {} }: CallSelection, parameters: Parameters): string {
  const { add } = parameters;
  const range = [`c.project_id = ${add(projectId)}::uuid`, `c.id >= ${add(minIdAt(from))}::uuid`, `c.id < ${add(minIdAt(to))}::uuid`];
  return [...range, whereFilter(filter, parameters)].join(' and ');
}

/** Returns the SQL condition of only the filters, on `calls c` or on aggregates with the alias `stored`. */
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
    } else if (name === 'status') {
      const [low, high] = statusBounds(value);
      terms.push(`${row}.status between ${add(low)}::integer and ${add(high)}::integer`);
    }
  }
  return terms.join(' and ');
}

/** Parses a status filter such as `429` or `4xx`. Returns the lowest and the highest status that match. */
function statusBounds(value: string): readonly [number, number] {
  const first = Number(value.slice(0, 1)) * 100;
  return value.endsWith('xx') ? [first, first + 99] : [Number(value), Number(value)];
}

/** Returns an SQL condition that compares a column with a filter value. */
export function matchesValue(column: string, value: string, { add }: Pick<Parameters, 'add'>): string {
  const stored = fromFilterValue(value);
  return stored === null ? `${column} is null` : `${column} = ${add(stored)}::text`;
}

/** Reverses `toFilterValue`. */
export function fromFilterValue(value: string): string | null {
  if (value === noValue) return null;
  return /^--+$/.test(value) ? value.slice(1) : value;
}

function isKeyOf<Shape extends object>(shape: Shape, name: string): name is Extract<keyof Shape, string> {
  return Object.hasOwn(shape, name);
}
