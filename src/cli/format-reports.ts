/** Formats the service's responses for a terminal. */
import { asArray, asObject, isObject, type JsonObject } from '../core/json/narrow.ts';
import { formatFacts, formatTable } from './table.ts';

export function formatProjects(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'No projects yet. Create one with: gateway projects create <project>\n';
  return formatTable(
    ['PROJECT', 'NAME', 'MAY CALL', 'MONTHLY CAP', 'CREATED'],
    rows.map(({ project, name, may_call, monthly_cap, created_at }) => [
      project,
      name,
      may_call === false ? 'no' : 'yes',
      formatUsd(monthly_cap),
      created_at,
    ]),
  );
}

export function formatKeys(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'The project has no keys yet. Create one with: gateway keys create --project <project>\n';
  return formatTable(
    ['PREFIX', 'NAME', 'CALLS', 'COST', 'RPM', 'TPM', 'IN AN OUTAGE', 'MODELS', 'EXPIRES', 'REVOKED', 'CREATED'],
    rows.map((row) => {
      const { calls, cost, rpm, tpm } = formatCeilings(row);
      const { prefix, name, on_budget_store_down: outage, models, expires_at, revoked_at, created_at } = row;
      return [prefix, name, calls, cost, rpm, tpm, outage ?? 'as project', models ?? 'all', expires_at, revoked_at, created_at];
    }),
  );
}

/** Prints the key alone on a line, so that it can be copied as a whole. */
export function formatIssuedKey(response: JsonObject, project: unknown): string {
  const { calls, cost, rpm, tpm } = formatCeilings(response);
  const facts = formatFacts([
    ['prefix', response.prefix],
    ['project', project],
    ['name', response.name],
    ['models', response.models ?? 'all'],
    ['calls', calls],
    ['cost', cost],
    ['rpm', rpm],
    ['tpm', tpm],
    ['in an outage', response.on_budget_store_down ?? 'as the project'],
    ['default output limit', response.default_max_output_tokens],
    ['expires', response.expires_at],
  ]);
  return `${String(response.key)}\n\n${facts}\nKeep the key: it is shown this once.\n`;
}

export function formatApplications(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'No application has settings.\n';
  return formatTable(
    ['APPLICATION', 'CALLS', 'COST', 'TIERS', 'UPDATED'],
    rows.map((row) => {
      const { calls, cost } = formatCeilings(row);
      return [row.source, calls, cost, Object.keys(asObject(row.tiers)), row.updated_at];
    }),
  );
}

export function formatRules(response: JsonObject): string {
  const rows = asArray(response.rules).map(asObject);
  if (rows.length === 0) return 'No content rules.\n';
  return formatTable(
    ['CLASS', 'PLACE', 'ACTION', 'EXPRESSION'],
    rows.map((rule) => [rule.class, rule.place, rule.action, rule.expression]),
  );
}

export function formatErasures(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'No erasures.\n';
  return formatTable(
    ['ERASED', 'STATE', 'DONE', 'END USER (SHA-256)', 'ID'],
    rows.map((row) => [row.erased_at, asObject(row.workflows).state, row.done_at, row.subject_sha256, row.id]),
  );
}

export function formatCalls(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'No calls yet.\n';
  return formatTable(
    ['TIME', 'PROJECT', 'ROUTE', 'SOURCE', 'ASKED', 'ANSWERED BY', 'STATUS', 'CODE', 'TOKENS', 'COST', 'MS', 'ID'],
    rows.map((row) => {
      const model = row.cache === 'hit' ? `${String(row.model ?? '')} (cache)` : row.model;
      return [
        row.created_at,
        row.project,
        row.route,
        row.source,
        row.model_asked,
        model,
        row.status,
        row.code,
        sumTokens(row.tokens),
        formatUsd(row.cost),
        row.duration_ms,
        row.id,
      ];
    }),
  );
}

/** A row for each failed attempt. `RESULT` is what became of the call. */
export function formatFailedAttempts(rows: readonly JsonObject[]): string {
  const failed = rows.flatMap((call) =>
    asArray(call.attempts)
      .map(asObject)
      .filter(({ error }) => isObject(error))
      .map((attempt) => {
        const { reason, type, code, message } = asObject(attempt.error);
        const model = `${String(attempt.provider)}/${String(attempt.model)}`;
        const outcome = [call.created_at, call.project, call.key_name ?? call.key, call.source, model, attempt.status];
        return [...outcome, reason, code ?? type, call.outcome, call.id, message];
      }),
  );
  if (failed.length === 0) return 'No attempt failed.\n';
  return formatTable(['TIME', 'PROJECT', 'KEY', 'SOURCE', 'MODEL', 'STATUS', 'REASON', 'CODE', 'RESULT', 'ID', 'MESSAGE'], failed);
}

export function formatLeases(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'No process holds a lease.\n';
  return formatTable(
    ['PROCESS', 'ALIVE', 'CEILINGS', 'OLDEST WINDOW'],
    rows.map(({ process, alive, counters, oldest_window }) => [process, alive === true ? 'yes' : 'no', counters, oldest_window]),
  );
}

export function formatQuarantine(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'Nothing is in the quarantine.\n';
  return formatTable(
    ['FILE', 'BYTES', 'QUARANTINED', 'PROJECTS', 'OLDEST CALL'],
    rows.map(({ file, bytes, quarantined_at, projects, oldest_call }) => [
      file,
      bytes,
      quarantined_at,
      asArray(projects).join(' ') || 'unreadable',
      oldest_call,
    ]),
  );
}

function sumTokens(tokens: unknown): number {
  return Object.values(asObject(tokens)).reduce<number>((sum, count) => sum + (typeof count === 'number' ? count : 0), 0);
}

/** An amount with two to nine decimals: `$0.50`, `$0.0000123`. Null for values that are not numbers. */
export function formatUsd(value: unknown): string | null {
  if (typeof value !== 'number') return null;
  const digits = value.toFixed(9).replace(/0{1,7}$/, '');
  return `$${digits}`;
}

/** The ceilings of a key, with the windows of those for calls and cost. */
function formatCeilings(key: JsonObject): JsonObject {
  const { calls, cost, ...rates } = asObject(key.ceilings);
  const windows = asObject(key.windows);
  return { ...rates, calls: formatLimit(calls, windows.calls), cost: formatLimit(formatUsd(cost), windows.cost) };
}

function formatLimit(limit: unknown, window: unknown): string | null {
  if (limit === null || limit === undefined) return null;
  return typeof window === 'string' ? `${String(limit)}/${window}` : String(limit);
}
