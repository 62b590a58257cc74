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
export function valueTypes(): pg.CustomTypesConfig {
  const types = new pg.TypeOverrides();
  for (const [oid, parse] of parsers) types.setTypeParser(oid, parse);
  return types;
}

const textArray: number = 1009;
const asText = (text: string): string => text;

// Object ids of PostgreSQL's own types never change; arrays have ids of their own.
const parsers: readonly (readonly [number, (text: string) => unknown])[] = [
  [20, Number],
  [1016, listOf(Number)],
  [1700, asText],
  [1231, listOf(asText)],
  [1082, asText],
  [1182, listOf(asText)],
  [1114, asText],
  [1115, listOf(asText)],
  [1083, asText],
  [1183, listOf(asText)],
];

/** Parser of a one-dimensional array: `pg` reads the braces and quotes with the parser of text[], null elements stay null. */
function listOf(parse: (text: string) => unknown): (text: string) => unknown {
  return (text) => {
    const readTexts: (value: string) => unknown = pg.types.getTypeParser(textArray, 'text');
    const elements = readTexts(text);
    if (!Array.isArray(elements)) throw new TypeError('an SQL array was read as something else');
    return elements.map((element: unknown) => (typeof element === 'string' ? parse(element) : null));
  };
}
