/**
 * Defines how we parse SQL values from PostgreSQL and PGlite. This only affects our own pools and doesn't change the
 * parsers that `pg` shares within the process.
 *
 * | SQL | JavaScript |
 * | --- | --- |
 * | int8 | number, because outbox ids, counters and nano-dollars stay below 2^53 (nine million dollars per row) |
 * | numeric, including `sum(int8)` | string. Cast it to int8 in the query to get a number. |
 * | timestamptz | Date |
 * | date, timestamp, time | string in the server's format, because a Date would interpret it in the local time zone |
 * | json, jsonb | parsed |
 * | bytea | Buffer |
 * | arrays of these | arrays of these |
 */
import pg from 'pg';
import { parseJsonOrThrow } from '../core/json/parse.ts';

export function createValueTypes(): pg.CustomTypesConfig {
  const types = new pg.TypeOverrides();
  for (const [oid, parse] of parsers) types.setTypeParser(oid, parse);
  return types;
}

const textArray: number = 1009;
const asString = (text: string): string => text;

// Keyed by type OID. OIDs of built-in types never change. Array types need entries of their own.
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
  [114, parseJsonOrThrow],
  [199, arrayOf(parseJsonOrThrow)],
  [3802, parseJsonOrThrow],
  [3807, arrayOf(parseJsonOrThrow)],
];

/** Creates a parser for one-dimensional arrays. The text[] parser takes care of braces, quotes and nulls. */
function arrayOf(parse: (text: string) => unknown): (text: string) => unknown {
  return (text) => {
    const parseTextArray: (value: string) => unknown = pg.types.getTypeParser(textArray, 'text');
    const elements = parseTextArray(text);
    if (!Array.isArray(elements)) throw new TypeError('expected the parser of text[] to return an array');
    return elements.map((element: unknown) => (typeof element === 'string' ? parse(element) : null));
  };
}
