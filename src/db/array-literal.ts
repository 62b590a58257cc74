/** PostgreSQL's array literals, the parameters of `unnest`. `pg` takes three times as long for an array, whose values may be of any type. */

export type ArrayValue = string | number | boolean | null;

/** Strings of this length are joined: JSON takes twice as long for them, and four times for lines of text, whose ends it escapes. */
const minTextLength = 64;

/**
 * The values of one column. Values of a `bytea` column are text in PostgreSQL's hexadecimal format, such as `\x00ff`.
 *
 * JSON's array is PostgreSQL's but for its brackets, as long as nothing in it is escaped, and is by far the fastest to make of short values.
 */
export function toArrayLiteral<Item>(items: readonly Item[], toValue: (item: Item) => ArrayValue): string {
  const values = items.map(toValue);
  const [first] = values;
  if (typeof first === 'string' && first.length >= minTextLength) return joinElements(values);
  const json = JSON.stringify(values);
  return json.includes('\\') ? joinElements(values) : `{${json.slice(1, -1)}}`;
}

/** Added to one string, which V8 copies once, when it is sent: `join` copies each text twice. */
function joinElements(values: readonly ArrayValue[]): string {
  let literal = '';
  for (const value of values) literal += literal === '' ? `{${toElement(value)}` : `,${toElement(value)}`;
  return `${literal}}`;
}

function toElement(value: ArrayValue): string | number | boolean {
  if (typeof value !== 'string') return value ?? 'NULL';
  return `"${value.includes('"') || value.includes('\\') ? value.replaceAll(/["\\]/g, '\\$&') : value}"`;
}
