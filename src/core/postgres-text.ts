/** Cleans up text for PostgreSQL, because `text` and `jsonb` values can't contain U+0000 or lone surrogates. */

export function toPostgresText(text: string, maxCodePoints = Number.POSITIVE_INFINITY): string {
  const whole = (text.includes('\0') ? text.replaceAll('\0', '') : text).toWellFormed();
  return truncateCodePoints(whole, maxCodePoints);
}

function truncateCodePoints(text: string, max: number): string {
  if (text.length <= max) return text;
  let units = 0;
  for (let count = 0; count < max && units < text.length; count += 1) {
    units += (text.codePointAt(units) ?? 0) > 0xffff ? 2 : 1;
  }
  return text.slice(0, units);
}
