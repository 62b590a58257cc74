/** Plain text tables for a terminal: columns as wide as their widest cell, nothing that a copy would drag along. */

/** A table with a line of titles; `-` stands for nothing. */
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

/** One fact a line, its name first. */
export function formatFacts(facts: readonly (readonly [string, unknown])[]): string {
  const width = Math.max(...facts.map(([name]) => name.length));
  return facts.map(([name, value]) => `${name.padEnd(width)}  ${cellText(value)}\n`).join('');
}

function cellText(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-';
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(cellText).join(',');
  // Control characters in a name must not move the terminal's cursor.
  return String(value).replace(/\p{Cc}/gu, '?');
}
