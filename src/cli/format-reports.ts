import { asArray, asObject, isObject, type JsonObject } from '../core/json/narrow.ts';
import type { Invocation } from './command.ts';
import { type Column, createListFormatter, formatFacts, formatList, formatRecord, titleOf, toRows } from './table.ts';

const noAccounts = 'No accounts yet. Create the first account with: gateway sign-in-link --admin';

/** The formatters of commands whose response is a list, by command name. */
export const lists = {
  'projects list': createListFormatter('No projects yet. Create one with: gateway projects create <project>', [
    ...['project', 'name', 'may_call'],
    usd('monthly_cap'),
    'created_at',
  ]),
  'keys list': createListFormatter('The project has no keys yet. Create one with: gateway keys create --project <project>', [
    ...['prefix', 'name', ...['calls', 'cost', 'rpm', 'tpm'].map(ceiling)],
    ['IN AN OUTAGE', (row) => row.on_budget_store_down ?? 'as project'],
    ['MODELS', (row) => row.models ?? 'all'],
    ...['expires_at', 'revoked_at', 'created_at'],
  ]),
  'applications list': createListFormatter('No application has settings.', [
    ['APPLICATION', (row) => row.source],
    ...['calls', 'cost'].map(ceiling),
    ['TIERS', (row) => Object.keys(asObject(row.tiers))],
    'updated_at',
  ]),
  'erasures list': createListFormatter('No erasures.', [
    'erased_at',
    ['STATE', (row) => asObject(row.workflows).state],
    'done_at',
    ['END USER (SHA-256)', (row) => row.subject_sha256],
    'id',
  ]),
  calls: createListFormatter({ all: 'No calls yet.', filtered: 'No calls match.' }, [
    ['TIME', (row) => row.created_at],
    ...['project', 'route', 'source'],
    ['ASKED', (row) => row.model_asked],
    ['ANSWERED BY', ({ cache, model }) => (cache === 'hit' ? `${String(model ?? '')} (cache)` : model)],
    ...['status', 'code'],
    ['TOKENS', ({ tokens }) => Object.values(asObject(tokens)).reduce<number>((sum, count) => sum + (Number(count) || 0), 0)],
    usd('cost'),
    ['MS', (row) => row.duration_ms],
    'id',
  ]),
  'leases list': createListFormatter('No process holds a lease.', [
    'process',
    'alive',
    ['CEILINGS', (row) => row.counters],
    'oldest_window',
  ]),
  'quarantine list': createListFormatter('Nothing is in the quarantine.', [
    ...['file', 'bytes', 'quarantined_at'],
    ['PROJECTS', ({ projects }) => asArray(projects).join(' ') || 'unreadable'],
    'oldest_call',
  ]),
  'people list': createListFormatter({ all: noAccounts, filtered: 'No accounts match.' }, [
    ['E-MAIL', (row) => row.email],
    ...['name', 'admin'],
    ['PASSWORD', (row) => row.has_password],
    ['ONLY IN', (row) => row.only_project],
    ...['disabled_at', 'created_at'],
  ]),
  'sessions list': createListFormatter('No sessions.', [
    ...['last_seen_at', 'created_at', 'expires_at', 'id'],
    ['BROWSER', (row) => row.user_agent],
  ]),
  'tokens list': createListFormatter('No personal tokens.', ['prefix', 'name', 'scopes', 'last_used_at', 'expires_at', 'id']),
  'members list': createListFormatter(
    'The project has no members. Add one with: gateway members set <email> --project <project> --role owner',
    [['E-MAIL', (row) => row.email], ...['name', 'role', 'confirmed', 'disabled'], ['SINCE', (row) => row.created_at]],
  ),
  audit: createListFormatter({ all: 'No changes.', filtered: 'No changes match.' }, [
    ['TIME', (row) => row.at],
    ['BY', ({ email, person_id: person, actor }) => email ?? person ?? actor],
    ...['project', 'action', 'target', 'outcome'],
    ['DETAIL', ({ detail }) => (detail === undefined ? null : JSON.stringify(detail))],
    'id',
  ]),
};

/** Formats a new key. The secret has a line to itself, which makes it easy to copy. */
export function formatIssuedKey(response: JsonObject, { options: { project } }: Invocation): string {
  const facts = formatFacts([
    ['prefix', response.prefix],
    ['project', project],
    ['name', response.name],
    ['models', response.models ?? 'all'],
    ...['calls', 'cost', 'rpm', 'tpm'].map((name) => [name, formatCeiling(response, name)] as const),
    ['in an outage', response.on_budget_store_down ?? 'as the project'],
    ['default output limit', response.default_max_output_tokens],
    ['expires', response.expires_at],
  ]);
  return `${String(response.key)}\n\n${facts}\nStore the key now, because it will not be shown again.\n`;
}

/** Formats either a single call, or a list of calls, failed attempts or refused calls. */
export function formatCalls(response: JsonObject, invocation: Invocation): string {
  if (response.object !== 'list') return formatRecord(response);
  if (isObject(response.counts)) return formatRefusedCalls(response, invocation);
  const { failed, ...filters } = invocation.members;
  return failed === true ? formatFailedAttempts(response, filters) : lists.calls(response, invocation);
}

function formatRefusedCalls(response: JsonObject, invocation: Invocation): string {
  const missing = Number(asObject(response.counts).not_recorded ?? 0);
  const more = missing > 0 ? `\n${missing} more refused ${missing === 1 ? 'call was' : 'calls were'} counted but not recorded.\n` : '';
  return formatRefused(response, invocation) + more;
}

const formatRefused = createListFormatter({ all: 'No refused calls.', filtered: 'No refused calls match.' }, [
  ['TIME', (row) => row.created_at],
  ...['project', 'key', 'source', 'route'],
  ['ASKED', (row) => row.model_asked],
  ...['status', 'reason', 'rule'],
  ['LIMIT', ({ limit, rule, reason }) => (reason === 'project_cap' || String(rule).startsWith('cost/') ? formatUsd(limit) : limit)],
  'id',
]);

/**
 * Lists failed attempts, one per row. `RESULT` is the outcome of the call, which may have succeeded with a later
 * attempt.
 */
function formatFailedAttempts(response: JsonObject, filters: JsonObject): string {
  const data = toRows(response).flatMap((call) =>
    asArray(call.attempts)
      .map(asObject)
      .filter(({ error }) => isObject(error))
      .map((attempt) => ({ ...attempt, call })),
  );
  return formatFailed({ data }, { members: filters });
}

const formatFailed = createListFormatter({ all: 'No attempt failed.', filtered: 'No calls match.' }, [
  ['TIME', ({ call }) => asObject(call).created_at],
  ['PROJECT', ({ call }) => asObject(call).project],
  ['KEY', ({ call }) => asObject(call).key_name ?? asObject(call).key],
  ['SOURCE', ({ call }) => asObject(call).source],
  ['MODEL', ({ provider, model }) => `${String(provider)}/${String(model)}`],
  'status',
  ['REASON', ({ error }) => asObject(error).reason],
  ['CODE', ({ error }) => asObject(error).code ?? asObject(error).type],
  ['RESULT', ({ call }) => asObject(call).outcome],
  ['ID', ({ call }) => asObject(call).id],
  ['MESSAGE', ({ error }) => asObject(error).message],
]);

export function formatStatus({ version, status, reasons, degraded, work }: JsonObject): string {
  const problems = [...asArray(reasons), ...asArray(degraded)].map((problem) => `- ${String(problem)}\n`).join('');
  const waiting = isObject(work)
    ? formatFacts(Object.entries(work).map(([name, value]) => [name.replaceAll('_', ' '), value]))
    : 'The database does not respond.\n';
  return `Version ${String(version)} is ${status === 'ready' ? 'ready' : 'not ready'}.\n${problems}\n${waiting}`;
}

export function formatRules({ rules }: JsonObject): string {
  return formatList('No content rules.', ['class', 'place', 'action', 'expression'], { data: rules });
}

export function formatRuleHits({ data }: JsonObject): string {
  const latest = ({ calls }: JsonObject): unknown => (Array.isArray(calls) ? calls[0] : null);
  return formatList('No content rules.', ['class', 'place', 'action', 'hits', ['LATEST CALL', latest], 'expression'], { data });
}

/**
 * Formats the totals of the month, followed by a table for each grouping that has rows. Without a project, the totals
 * cover all projects.
 */
export function formatUsage(usage: JsonObject): string {
  if (usage.by_project !== undefined) return formatDeploymentUsage(usage);
  const facts = formatFacts([
    ['month (UTC)', usage.month],
    ['spend', formatUsd(usage.spend)],
    ['monthly cap', formatUsd(usage.monthly_cap)],
  ]);
  const sums = [usd('cost'), 'tokens', 'calls'] as const;
  return (
    facts +
    formatTables([
      [usage.by_model, ['model', ...sums]],
      [usage.by_source, [['APPLICATION', (row) => row.source], ...sums]],
      [usage.by_task, [['TASK', (row) => row.task_id], ...sums]],
    ])
  );
}

/** Formats a table for each list that has rows. */
function formatTables(tables: readonly (readonly [rows: unknown, columns: readonly Column[]])[]): string {
  const shown = tables.filter(([rows]) => asArray(rows).length > 0);
  return shown.map(([data, columns]) => `\n${formatList('', columns, { data })}`).join('');
}

function formatDeploymentUsage(usage: JsonObject): string {
  const facts = formatFacts([
    ['month (UTC)', usage.month],
    ['spend', formatUsd(usage.spend)],
    ['calls', usage.calls],
    ['errors', usage.errors],
  ]);
  const sums = [usd('cost'), 'calls', 'errors'] as const;
  return (
    facts +
    formatTables([
      [usage.by_project, ['project', ...sums, usd('monthly_cap')]],
      [usage.by_key, [['KEY', ({ prefix }) => prefix], 'name', 'project', ...sums]],
      [usage.by_model, ['model', ...sums]],
    ])
  );
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
    ['skipped: price unknown', skipped.price_unknown],
    ['skipped: units not stored', skipped.units_not_kept],
    ['skipped: videos', skipped.video],
    ['difference', `${difference < 0 ? '-' : ''}${formatUsd(Math.abs(difference))}`],
  ]);
}

/**
 * Formats an amount with two to nine decimals, e.g. as `$0.50` or `$0.0000123`. Returns null for anything that isn't a
 * number.
 */
export function formatUsd(value: unknown): string | null {
  if (typeof value !== 'number') return null;
  const digits = value.toFixed(9).replace(/0{1,7}$/, '');
  return `$${digits}`;
}

function usd(name: string): Column {
  return [titleOf(name), (row) => formatUsd(row[name])];
}

function ceiling(name: string): Column {
  return [titleOf(name), (row) => formatCeiling(row, name)];
}

function formatCeiling(row: JsonObject, name: string): unknown {
  const limit = asObject(row.ceilings)[name];
  const window = asObject(row.windows)[name];
  const written = name === 'cost' ? formatUsd(limit) : limit;
  return written === null || written === undefined || typeof window !== 'string' ? written : `${String(written)}/${window}`;
}
