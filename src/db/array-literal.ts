/** PostgreSQL's array literals, the parameters of `unnest`. `pg` takes three times as long for an array, whose values may be of any type. */

export type ArrayValue = string | number | boolean | null;

/** The values of one column. Values of a `bytea` column are text in PostgreSQL's hexadecimal format, such as `\x00ff`. */
export function toArrayLiteral<Item>(items: readonly Item[], toValue: (item: Item) => ArrayValue): string {
  let literal = '{';
  for (const item of items) literal += `${literal.length === 1 ? '' : ','}${toElement(toValue(item))}`;
  return `${literal}}`;
}

function toElement(value: ArrayValue): string | number | boolean {
  if (typeof value !== 'string') return value ?? 'NULL';
  return value.includes('"') || value.includes('\\') ? `"${value.replaceAll(/["\\]/g, '\\$&')}"` : `"${value}"`;
}
