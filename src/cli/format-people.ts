/** Formats people, members, sessions and the audit log for a terminal. */
import type { JsonObject } from '../core/json/narrow.ts';
import { formatTable } from './table.ts';

export function formatPeople(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'No accounts yet. Create the first account with: gateway sign-in-link --admin\n';
  return formatTable(
    ['E-MAIL', 'NAME', 'ADMIN', 'PASSWORD', 'ONLY IN', 'DISABLED', 'CREATED'],
    rows.map((row) => [row.email, row.name, yesNo(row.admin), yesNo(row.has_password), row.only_project, row.disabled_at, row.created_at]),
  );
}

export function formatSessions(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'No sessions.\n';
  return formatTable(
    ['LAST SEEN', 'CREATED', 'EXPIRES', 'ID', 'BROWSER'],
    rows.map((row) => [row.last_seen_at, row.created_at, row.expires_at, row.id, row.user_agent]),
  );
}

export function formatTokens(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'No personal tokens.\n';
  return formatTable(
    ['PREFIX', 'NAME', 'SCOPES', 'LAST USED', 'EXPIRES', 'ID'],
    rows.map((row) => [row.prefix, row.name, row.scopes, row.last_used_at, row.expires_at, row.id]),
  );
}

export function formatMembers(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'The project has no members. Add one with: gateway members set <email> --project <project> --role owner\n';
  return formatTable(
    ['E-MAIL', 'NAME', 'ROLE', 'CONFIRMED', 'DISABLED', 'SINCE'],
    rows.map((row) => [row.email, row.name, row.role, yesNo(row.confirmed), yesNo(row.disabled), row.created_at]),
  );
}

/** The link alone on a line, so that it can be copied as a whole. */
export function formatSignInLink({ email, sign_in_url: url, sign_in_url_expires_at: end }: JsonObject): string {
  const effect = email === null ? 'creates the account of a deployment admin' : `signs in ${String(email)}`;
  return `${String(url)}\n\nIt ${effect}, once, until ${String(end)}.\n`;
}

export function formatAudit(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'No changes.\n';
  return formatTable(
    ['TIME', 'BY', 'PROJECT', 'ACTION', 'TARGET', 'OUTCOME', 'DETAIL', 'ID'],
    rows.map((row) => [
      row.at,
      row.email ?? row.person_id ?? row.actor,
      row.project,
      row.action,
      row.target,
      row.outcome,
      row.detail === undefined ? null : JSON.stringify(row.detail),
      row.id,
    ]),
  );
}

function yesNo(value: unknown): string {
  return value === true ? 'yes' : 'no';
}
