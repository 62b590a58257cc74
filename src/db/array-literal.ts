/** PostgreSQL's arrays, the parameters of `unnest`. `pg` takes three times as long for an array, whose values may be of any type. */

export type ArrayValue = string | number | boolean | null;

/** JSON takes twice as long for strings of this length, and four times for lines of text, whose ends it escapes. */
const minTextLength = 64;

/**
 * The values of one column. Values of a `bytea` column are text in PostgreSQL's hexadecimal format, such as `\x00ff`.
 *
 * JSON's array is PostgreSQL's but for its brackets, as long as nothing in it is escaped, and is by far the fastest to make of short values.
 */
export function toArrayLiteral<Item>(items: readonly Item[], toValue: (item: Item) => ArrayValue): string {
  return joinValues(items.map(toValue));
}

/**
 * The values of a column of the type `sqlType`. Values of a `bytea` column are hexadecimal digits. These and long texts are sent in the binary
 * format, for which both sides take half as long; the parameter needs a cast, as always.
 */
export function toArrayParameter(sqlType: string, values: readonly ArrayValue[]): string | Buffer {
  if (sqlType === 'bytea') return toBinaryArray(byteaOid, 'hex', values);
  return sqlType === 'text' && isLong(values.find((value) => value !== null)) ? toBinaryArray(textOid, 'utf8', values) : joinValues(values);
}

/** One value of such a column. */
export function toParameter(sqlType: string, value: ArrayValue | undefined): ArrayValue | Buffer | undefined {
  return sqlType === 'bytea' && typeof value === 'string' ? Buffer.from(value, 'hex') : value;
}

function joinValues(values: readonly ArrayValue[]): string {
  if (isLong(values[0])) return joinElements(values);
  const json = JSON.stringify(values);
  return json.includes('\\') ? joinElements(values) : `{${json.slice(1, -1)}}`;
}

function isLong(value: ArrayValue | undefined): boolean {
  return typeof value === 'string' && value.length >= minTextLength;
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

/** OIDs of built-in types never change. */
const byteaOid = 17;
const textOid = 25;
const headBytes = 20;

/** Of a UTF-16 unit. */
const maxUtf8Bytes = 3;

/**
 * Dimensions, a flag for nulls, the type of the elements, their number and the first index; then the length of each, -1 for null, and its bytes.
 * The buffer is large enough for texts of ASCII, and grows for others: counting their bytes first takes longer than writing them.
 */
function toBinaryArray(elementOid: number, encoding: 'utf8' | 'hex', values: readonly ArrayValue[]): Buffer {
  let size = headBytes + 4 * values.length;
  let longest = 0;
  for (const value of values) {
    if (typeof value !== 'string') continue;
    size += value.length;
    longest = Math.max(longest, value.length);
  }
  let array = Buffer.allocUnsafe(size + (maxUtf8Bytes - 1) * longest);
  let at = 0;
  for (const field of [1, 1, elementOid, values.length, 1]) at = array.writeInt32BE(field, at);
  let lengthBytes = 4 * values.length;
  for (const value of values) {
    let length = -1;
    if (typeof value === 'string') {
      const needed = at + lengthBytes + maxUtf8Bytes * value.length;
      if (needed > array.length) array = Buffer.concat([array], Math.max(needed, 2 * array.length));
      length = array.write(value, at + 4, encoding);
    }
    array.writeInt32BE(length, at);
    at += 4 + Math.max(0, length);
    lengthBytes -= 4;
  }
  return array.subarray(0, at);
}
