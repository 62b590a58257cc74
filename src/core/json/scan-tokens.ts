/**
 * Scans the bytes of a JSON text for information that parsing loses, i.e. repeated keys and the exact digits of long
 * numbers.
 */
import { characters } from './characters.ts';
import type { Span } from './spans.ts';
import { skipString } from './syntax.ts';

const { backslash, colon, quote } = characters;

const longNumberLength = 12;

/**
 * Calls `onString` with the position of each string, including keys. The syntax of the text has to be checked before.
 *
 * `memberCount` is the number of fields in all objects. If a key is repeated, it's higher than the number of fields
 * after parsing. `longNumbers` contains all numbers with at least `longNumberLength` characters as they're written. If
 * JavaScript would round a number, the list also contains the rounded value.
 */
export function scanTokens(json: Buffer, onString?: (string: Span) => void): { memberCount: number; longNumbers: string[] } {
  const longNumbers: string[] = [];
  let memberCount = 0;
  for (let at = 0; at < json.length; ) {
    const byte = json[at];
    if (byte === quote) {
      const close = json.indexOf(quote, at + 1);
      const end = json[close - 1] === backslash ? skipString(json, at) : close + 1;
      onString?.({ start: at, end });
      at = end;
    } else if (byte !== undefined && isNumeric[byte] === 1) {
      const start = at;
      while (isNumeric[json[at] ?? 0] === 1) at += 1;
      if (at - start >= longNumberLength) {
        const written = json.toString('latin1', start, at);
        const value = String(Number(written));
        longNumbers.push(...(value === written ? [written] : [written, value]));
      }
    } else {
      if (byte === colon) memberCount += 1;
      at += 1;
    }
  }
  return { memberCount, longNumbers };
}

/**
 * Contains 1 for each byte that can occur in a number. The `e` of an exponent also occurs in `true` and `false`, but a
 * single letter isn't long enough to be taken for a long number.
 */
const isNumeric = Uint8Array.from({ length: 256 }, (_, byte) => (/[0-9.eE+-]/.test(String.fromCharCode(byte)) ? 1 : 0));
