/** Formats the service's responses for a terminal. */
import { asArray, asObject, isObject, type JsonObject } from '../core/json/narrow.ts';
import type { Invocation } from './command.ts';
import { type Columns, formatFacts, formatList, toRows } from './table.ts';

const usd = (name: string) => (row: JsonObject) => formatUsd(row[name]);

/** A ceiling of a key or an application, with its window. */
const ceiling = (name: string) => (row: JsonObject) => {
  const limit = asObject(row.ceilings)[name];
  const window = asObject(row.windows)[name];
  const written = name === 'cost' ? formatUsd(limit) : limit;
  return written === null || written === undefined || typeof window !== 'string' ? written : `${String(written)}/${window}`;
};

const list = (empty: string, columns: Columns) => (response: JsonObject) => formatList(empty, columns, response);

/** The lists by their command: what is printed for an empty one, and the columns of the others. */
export const lists = {
  'projects list': list('No projects yet. Create one with: gateway projects create <project>', {
    PROJECT: 'project',
    NAME: 'name',
    'MAY CALL': 'may_call',
    'MONTHLY CAP': usd('monthly_cap'),
    CREATED: 'created_at',
  }),
  'keys list': list('The project has no keys yet. Create one with: gateway keys create --project <project>', {
    PREFIX: 'prefix',
    NAME: 'name',
    CALLS: ceiling('calls'),
    COST: ceiling('cost'),
    RPM: ceiling('rpm'),
    TPM: ceiling('tpm'),
    'IN AN OUTAGE': (row) => row.on_budget_store_down ?? 'as project',
    MODELS: (row) => row.models ?? 'all',
    EXPIRES: 'expires_at',
    REVOKED: 'revoked_at',
    CREATED: 'created_at',
  }),
  'applications list': list('No application has settings.', {
    APPLICATION: 'source',
    CALLS: ceiling('calls'),
    COST: ceiling('cost'),
    TIERS: (row) => Object.keys(asObject(row.tiers)),
    UPDATED: 'updated_at',
  }),
  'erasures list': list('No erasures.', {
    ERASED: 'erased_at',
    STATE: (row) => asObject(row.workflows).state,
    DONE: 'done_at',
    'END USER (SHA-256)': 'subject_sha256',
    ID: 'id',
  }),
  calls: list('No calls yet.', {
    TIME: 'created_at',
    PROJECT: 'project',
    ROUTE: 'route',
    SOURCE: 'source',
    ASKED: 'model_asked',
    'ANSWERED BY': ({ cache, model }) => (cache === 'hit' ? `${String(model ?? '')} (cache)` : model),
    STATUS: 'status',
    CODE: 'code',
    TOKENS: ({ tokens }) => Object.values(asObject(tokens)).reduce<number>((sum, count) => sum + (Number(count) || 0), 0),
    COST: usd('cost'),
    MS: 'duration_ms',
    ID: 'id',
  }),
  'leases list': list('No process holds a lease.', {
    PROCESS: 'process',
    ALIVE: 'alive',
    CEILINGS: 'counters',
    'OLDEST WINDOW': 'oldest_window',
  }),
  'quarantine list': list('Nothing is in the quarantine.', {
    FILE: 'file',
    BYTES: 'bytes',
    QUARANTINED: 'quarantined_at',
    PROJECTS: ({ projects }) => asArray(projects).join(' ') || 'unreadable',
    'OLDEST CALL': 'oldest_call',
  }),
  'people list': list('No accounts yet. Create the first account with: gateway sign-in-link --admin', {
    'E-MAIL': 'email',
    NAME: 'name',
    ADMIN: 'admin',
    PASSWORD: 'has_password',
    'ONLY IN': 'only_project',
    DISABLED: 'disabled_at',
    CREATED: 'created_at',
  }),
  'sessions list': list('No sessions.', {
    'LAST SEEN': 'last_seen_at',
    CREATED: 'created_at',
    EXPIRES: 'expires_at',
    ID: 'id',
    BROWSER: 'user_agent',
  }),
  'tokens list': list('No personal tokens.', {
    PREFIX: 'prefix',
    NAME: 'name',
    SCOPES: 'scopes',
    'LAST USED': 'last_used_at',
    EXPIRES: 'expires_at',
    ID: 'id',
  }),
  'members list': list('The project has no members. Add one with: gateway members set <email> --project <project> --role owner', {
    'E-MAIL': 'email',
    NAME: 'name',
    ROLE: 'role',
    CONFIRMED: 'confirmed',
    DISABLED: 'disabled',
    SINCE: 'created_at',
  }),
  audit: list('No changes.', {
    TIME: 'at',
    BY: ({ email, person_id: person, actor }) => email ?? person ?? actor,
    PROJECT: 'project',
    ACTION: 'action',
    TARGET: 'target',
    OUTCOME: 'outcome',
    DETAIL: ({ detail }) => (detail === undefined ? null : JSON.stringify(detail)),
    ID: 'id',
  }),
};

/** Prints the key alone on a line, so that it can be copied as a whole. */
export function formatIssuedKey(response: JsonObject, { options: { project } }: Invocation): string {
  const facts = formatFacts([
    ['prefix', response.prefix],
    ['project', project],
    ['name', response.name],
    ['models', response.models ?? 'all'],
    ...['calls', 'cost', 'rpm', 'tpm'].map((name) => [name, ceiling(name)(response)] as const),
    ['in an outage', response.on_budget_store_down ?? 'as the project'],
    ['default output limit', response.default_max_output_tokens],
    ['expires', response.expires_at],
  ]);
  return `${String(response.key)}\n\n${facts}\nKeep the key: it is shown this once.\n`;
}

/** A row for each failed attempt. `RESULT` is what became of the call. */
export function formatFailedAttempts(response: JsonObject): string {
  const data = toRows(response).flatMap((call) =>
    asArray(call.attempts)
      .map(asObject)
      .filter(({ error }) => isObject(error))
      .map((attempt) => ({ ...call, ...asObject(attempt.error), model: `${String(attempt.provider)}/${String(attempt.model)}`, attempt })),
  );
  return failedAttempts({ data });
}

const failedAttempts = list('No attempt failed.', {
  TIME: 'created_at',
  PROJECT: 'project',
  KEY: ({ key, key_name: name }) => name ?? key,
  SOURCE: 'source',
  MODEL: 'model',
  STATUS: ({ attempt }) => asObject(attempt).status,
  REASON: 'reason',
  CODE: ({ attempt }) => asObject(asObject(attempt).error).code ?? asObject(asObject(attempt).error).type,
  RESULT: 'outcome',
  ID: 'id',
  MESSAGE: 'message',
});

export function formatRules({ rules }: JsonObject): string {
  return formatList('No content rules.', { CLASS: 'class', PLACE: 'place', ACTION: 'action', EXPRESSION: 'expression' }, { data: rules });
}

/** The month, then a table per group that has rows. */
export function formatUsage(usage: JsonObject): string {
  const facts = formatFacts([
    ['month (UTC)', usage.month],
    ['spend', formatUsd(usage.spend)],
    ['monthly cap', formatUsd(usage.monthly_cap)],
  ]);
  const groups = { MODEL: ['model', usage.by_model], APPLICATION: ['source', usage.by_source], TASK: ['task_id', usage.by_task] } as const;
  const tables = Object.entries(groups).flatMap(([title, [member, rows]]) =>
    asArray(rows).length === 0
      ? []
      : [`\n${formatList('', { [title]: member, COST: usd('cost'), TOKENS: 'tokens', CALLS: 'calls' }, { data: rows })}`],
  );
  return facts + tables.join('');
}

export function formatReprice(response: JsonObject): string {
  const skipped = asObject(response.left);
  const difference = typeof response.difference === 'number' ? response.difference : 0;
  return formatFacts([
    ['calls in the window', response.calls],
    ['calls changed', response.calls_changed],
    ['  of unknown cost before', response.calls_newly_priced],
    ['attempts changed', response.attempts_changed],
    ['ceilings changed', response.counters_changed],
    ...(response.prices === 'now' ? [['price history corrected', asArray(response.prices_corrected)] as const] : []),
    ['left: price unknown', skipped.price_unknown],
    ['left: units not kept', skipped.units_not_kept],
    ['left: videos', skipped.video],
    ['difference', `${difference < 0 ? '-' : ''}${formatUsd(Math.abs(difference))}`],
  ]);
}

/** An amount with two to nine decimals: `$0.50`, `$0.0000123`. Null for values that are not numbers. */
export function formatUsd(value: unknown): string | null {
  if (typeof value !== 'number') return null;
  const digits = value.toFixed(9).replace(/0{1,7}$/, '');
  return `$${digits}`;
}
