/** PostgreSQL's array literals, the parameters of `unnest`. `pg` takes three times as long for an array, whose values may be of any type. */

export type ArrayValue = string | number | boolean | null;

/**
 * The values of one column. Values of a `bytea` column are text in PostgreSQL's hexadecimal format, such as `\x00ff`.
 *
 * JSON's array is PostgreSQL's but for its brackets, as long as nothing in it is escaped, and is by far the fastest to make.
 */
export function toArrayLiteral<Item>(items: readonly Item[], toValue: (item: Item) => ArrayValue): string {
  const values = items.map(toValue);
  const json = JSON.stringify(values);
  return `{${json.includes('\\') ? values.map(toElement).join(',') : json.slice(1, -1)}}`;
}

function toElement(value: ArrayValue): string | number | boolean {
  if (typeof value !== 'string') return value ?? 'NULL';
  return `"${value.replaceAll(/["\\]/g, '\\$&')}"`;
}
