/**
 * Which JavaScript values SQL values become: the same for PostgreSQL and PGlite, and local to our pools (the parsers that `pg` shares
 * between all users of the process stay as they are).
 *
 * | SQL | JavaScript |
 * | --- | --- |
 * | int8 | number: ids of the outbox, counters and nano-dollars stay below 2^53 (nine million dollars a row) |
 * | numeric, so also `sum(int8)` | string: cast to int8 in the query where a number is meant |
 * | timestamptz | Date |
 * | date, timestamp, time | string as the server writes it: they name no instant, and a Date would be read in the machine's time zone |
 * | json, jsonb | parsed |
 * | bytea | Buffer |
 * | arrays of these | arrays of these |
 */
import pg from 'pg';

/** What `pg` asks for parsers; made once per pool. */
export function createValueTypes(): pg.CustomTypesConfig {
  const types = new pg.TypeOverrides();
  for (const [oid, parse] of parsers) types.setTypeParser(oid, parse);
  return types;
}

const textArray: number = 1009;
const asString = (text: string): string => text;

// Object ids of PostgreSQL's own types never change; arrays have ids of their own.
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

/** Parser of a one-dimensional array: `pg` reads the braces and quotes with the parser of text[], null elements stay null. */
function arrayOf(parse: (text: string) => unknown): (text: string) => unknown {
  return (text) => {
    const parseTextArray: (value: string) => unknown = pg.types.getTypeParser(textArray, 'text');
    const elements = parseTextArray(text);
    if (!Array.isArray(elements)) throw new TypeError('an SQL array was read as something else');
    return elements.map((element: unknown) => (typeof element === 'string' ? parse(element) : null));
  };
}
