/** Reads from the bytes of a JSON text what is lost when it is parsed: repeated members, and the digits of long numbers. */
import { characters } from '../../core/json/characters.ts';
import type { Span } from '../../core/json/spans.ts';
import { skipString } from '../../core/json/syntax.ts';

const { backslash, colon, quote } = characters;

export interface JsonTokens {
  /** Members of all objects. The parsed value has fewer when an object repeats a key. */
  readonly memberCount: number;
  /** Numbers of at least `longNumberLength` characters: as they are written, because parsers may round them, and their value. */
  readonly longNumbers: readonly string[];
}

const longNumberLength = 12;

/** Calls `onString` with the positions of each string, keys included. The syntax has been checked before. */
export function scanTokens(json: Buffer, onString?: (string: Span) => void): JsonTokens {
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

/** By byte: whether a number may contain it. The letter of an exponent is also in `true`, where it is short. */
const isNumeric = Uint8Array.from({ length: 256 }, (_, byte) => (/[0-9.eE+-]/.test(String.fromCharCode(byte)) ? 1 : 0));
