/** Text that PostgreSQL can keep: no U+0000, no halves of surrogate pairs (its `text` and `jsonb` refuse both). */

/** `text` without U+0000, with U+FFFD for lone surrogates, and no longer than `maxCodePoints` Unicode code points. */
export function toPostgresText(text: string, maxCodePoints = Number.POSITIVE_INFINITY): string {
  const whole = (text.includes('\0') ? text.replaceAll('\0', '') : text).toWellFormed();
  return truncateCodePoints(whole, maxCodePoints);
}

function truncateCodePoints(text: string, max: number): string {
  // No text has more code points than UTF-16 units.
  if (text.length <= max) return text;
  let units = 0;
  for (let count = 0; count < max && units < text.length; count += 1) {
    units += (text.codePointAt(units) ?? 0) > 0xffff ? 2 : 1;
  }
  return text.slice(0, units);
}
