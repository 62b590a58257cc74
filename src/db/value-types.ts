/**
 * Defines how SQL values are parsed. The rules are the same for PostgreSQL and PGlite. They only apply to these pools,
 * and don't change the parsers that `pg` shares within the process.
 *
 * | SQL | JavaScript |
 * | --- | --- |
 * | int8 | number, because outbox ids, counters and nano-dollars stay below 2^53 (nine million dollars per row) |
 * | numeric, including `sum(int8)` | string. Cast it to int8 in the query to get a number. |
 * | timestamptz | Date |
 * | date, timestamp, time | string in the server's format. They aren't instants, and a Date would use the local time zone. |
 * | json, jsonb | parsed |
 * | bytea | Buffer |
 * | arrays of these | arrays of these |
 */
import pg from 'pg';

/** Creates the parsers for one pool. */
export function createValueTypes(): pg.CustomTypesConfig {
  const types = new pg.TypeOverrides();
  for (const [oid, parse] of parsers) types.setTypeParser(oid, parse);
  return types;
}

const textArray: number = 1009;
const asString = (text: string): string => text;

// Keyed by type OID. Built-in OIDs never change, and array types have their own.
const parsers: readonly (readonly [number, (text: string) => unknown])[] = [
  [20, Number],
  [1016, arrayOf(Number)],
  [1700, asString],
  [1231, arrayOf(asString)],
  [1082, asString],
  [1182, arrayOf(asString)],
  [1114, asString],
  [1115, arrayOf(asString)],
  [1083, asString],
  [1183, arrayOf(asString)],
];

/** Parses a one-dimensional array. The parser of text[] handles braces and quotes, and null elements stay null. */
function arrayOf(parse: (text: string) => unknown): (text: string) => unknown {
  return (text) => {
    const parseTextArray: (value: string) => unknown = pg.types.getTypeParser(textArray, 'text');
    const elements = parseTextArray(text);
    if (!Array.isArray(elements)) throw new TypeError('the parser of text[] did not return an array');
    return elements.map((element: unknown) => (typeof element === 'string' ? parse(element) : null));
  };
}
