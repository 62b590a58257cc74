/** Formats plain text tables for a terminal, without borders. A column is as wide as its widest cell. */
import { asArray, asObject, isObject, type JsonObject } from '../core/json/narrow.ts';
import type { Invocation } from './command.ts';

export function formatTable(titles: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const lines = [titles, ...rows.map((row) => row.map(cellText))];
  const widths = titles.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  return lines
    .map(
      (line) =>
        `${line
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

/** Either the name of a field, or a title with a function that returns the text of a cell. */
export type Column = string | readonly [title: string, show: (row: JsonObject) => unknown];

/**
 * Formats the list in a response. Returns `empty` if there are no rows. If `columns` is null, there's a column for
 * every field.
 */
export function formatList(empty: string, columns: readonly Column[] | null, response: JsonObject): string {
  const rows = toRows(response);
  if (rows.length === 0) return `${empty}\n`;
  const shown = columns ?? Object.keys(rows[0] ?? {});
  const cells = rows.map((row) => shown.map((column) => yesNo(typeof column === 'string' ? row[column] : column[1](row))));
  return formatTable(
    shown.map((column) => (typeof column === 'string' ? titleOf(column) : column[0])),
    cells,
  );
}

/** The text to show if a list has no rows. It can be a different text if the user has filtered the list. */
type Empty = string | { readonly all: string; readonly filtered: string };

/** Returns a function that formats the list in a response with these columns. */
export function createListFormatter(
  empty: Empty,
  columns: readonly Column[],
): (response: JsonObject, invocation?: Pick<Invocation, 'members'>) => string {
  const { all, filtered } = typeof empty === 'string' ? { all: empty, filtered: empty } : empty;
  return (response, { members } = { members: {} }) => {
    const isFiltered = Object.keys(members).some((name) => name !== 'limit');
    return formatList(isFiltered ? filtered : all, columns, response);
  };
}

/** Derives a column's title from a field, e.g. `LAST USED` from `last_used_at`. */
export function titleOf(member: string): string {
  return member.replace(/_at$/, '').replaceAll('_', ' ').toUpperCase();
}

export function formatFacts(facts: readonly (readonly [string, unknown])[]): string {
  const width = Math.max(...facts.map(([name]) => name.length));
  return facts.map(([name, value]) => `${name.padEnd(width)}  ${cellText(value)}\n`).join('');
}

export function toRows(response: JsonObject): JsonObject[] {
  return asArray(response.data).map(asObject);
}

/** Formats an object, with one field per line. A nested field has a name such as `ceilings.calls`. */
export function formatRecord(json: JsonObject): string {
  return formatFacts(flatten(json, ''));
}

function flatten(json: JsonObject, prefix: string): (readonly [string, unknown])[] {
  return Object.entries(json).flatMap(([name, value]) =>
    isObject(value) && Object.keys(value).length > 0 ? flatten(value, `${prefix}${name}.`) : [[`${prefix}${name}`, value] as const],
  );
}

function yesNo(value: unknown): unknown {
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : value;
}

function cellText(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-';
  if (isObject(value)) return Object.keys(value).length === 0 ? '-' : JSON.stringify(value);
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(cellText).join(',');
  // Replace control characters, because one in a name could move the cursor of the terminal.
  return String(value).replace(/\p{Cc}/gu, '?');
}
