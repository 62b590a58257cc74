/**
 * Parses JSON and keeps the text of numbers that JavaScript would change (see lossless-json.ts). `JSON.parse` with a
 * reviver takes 5 µs per value, so an 8 MB body of small numbers blocked the process for twenty seconds (measured).
 * This parser takes a tenth of that, and it limits the depth and the number of values.
 */

import { characters } from '../../core/json/characters.ts';

/** A number that JSON.stringify writes with its original text. */
interface RawJson {
  readonly rawJSON: string;
}

declare global {
  /** `JSON.rawJSON` and `JSON.isRawJSON` exist since Node 21, but TypeScript doesn't declare them yet. */
  interface JSON {
    rawJSON(text: string): RawJson;
    isRawJSON(value: unknown): value is RawJson;
  }
}

/** Real requests never get this deep, and up to this depth we can serialize the value without overflowing the stack. */
const maxDepth = 1_000;

/** Parsing this many values takes a tenth of a second. Even a long conversation only has about ten thousand. */
const maxValues = 500_000;

/**
 * The result can be serialized with `JSON.stringify`. Returns undefined if the text isn't JSON, or if it's nested too
 * deeply or has too many values.
 */
export function parseLossless(text: string): unknown {
  try {
    return createReader(text).readWhole();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

const { quote, comma, colon, openBracket, backslash, closeBracket, openBrace, closeBrace } = characters;

function createReader(text: string): { readWhole(): unknown } {
  const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
  let at = 0;
  let values = 0;

  const fail = (): never => {
    throw new SyntaxError(`invalid JSON at ${at}`);
  };

  /** Skips white space and returns the character code at the new position. */
  const next = (): number => {
    let code = text.charCodeAt(at);
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) {
      at += 1;
      code = text.charCodeAt(at);
    }
    return code;
  };

  const readValue = (depth: number): unknown => {
    const code = next();
    values += 1;
    if (values > maxValues) fail();
    if (code === quote) return readString();
    if (code === openBrace) return depth < maxDepth ? readObject(depth + 1) : fail();
    if (code === openBracket) return depth < maxDepth ? readList(depth + 1) : fail();
    if (code === 0x74) return readWord('true', true);
    if (code === 0x66) return readWord('false', false);
    if (code === 0x6e) return readWord('null', null);
    return readNumber();
  };

  const readObject = (depth: number): Record<string, unknown> => {
    const object: Record<string, unknown> = {};
    at += 1;
    if (next() === closeBrace) {
      at += 1;
      return object;
    }
    for (;;) {
      if (next() !== quote) fail();
      const key = readString();
      if (next() !== colon) fail();
      at += 1;
      const value = readValue(depth);
      // A normal assignment to `__proto__` would set the object's prototype instead of adding a field.
      if (key === '__proto__') Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
      else object[key] = value;
      if (endsAfter(closeBrace)) return object;
    }
  };

  const readList = (depth: number): unknown[] => {
    const list: unknown[] = [];
    at += 1;
    if (next() === closeBracket) {
      at += 1;
      return list;
    }
    for (;;) {
      list.push(readValue(depth));
      if (endsAfter(closeBracket)) return list;
    }
  };

  /** Consumes the comma or closing bracket after a value. Returns true if it was the bracket. */
  const endsAfter = (close: number): boolean => {
    const code = next();
    if (code !== comma && code !== close) fail();
    at += 1;
    return code === close;
  };

  const readString = (): string => {
    const start = at;
    let end = text.indexOf('"', start + 1);
    while (end > 0 && isEscaped(end)) end = text.indexOf('"', end + 1);
    if (end < 0) fail();
    at = end + 1;
    const inner = text.slice(start + 1, end);
    // `JSON.parse` handles strings with escapes or (invalid) control characters, which are rare.
    return needsCare.test(inner) ? unescaped(text.slice(start, at)) : inner;
  };

  const isEscaped = (position: number): boolean => {
    let first = position;
    while (text.charCodeAt(first - 1) === backslash) first -= 1;
    return (position - first) % 2 === 1;
  };

  const readNumber = (): number | RawJson => {
    number.lastIndex = at;
    if (!number.test(text)) fail();
    const written = text.slice(at, number.lastIndex);
    at = number.lastIndex;
    const value = Number(written);
    return String(value) === written ? value : JSON.rawJSON(written);
  };

  const readWord = <Value>(word: string, value: Value): Value => {
    if (!text.startsWith(word, at)) fail();
    at += word.length;
    return value;
  };

  return {
    readWhole() {
      const value = readValue(0);
      next();
      return at === text.length ? value : fail();
    },
  };
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: matches control characters on purpose.
const needsCare = /[\\\u0000-\u001f]/;

function unescaped(literal: string): string {
  const parsed: unknown = JSON.parse(literal);
  if (typeof parsed !== 'string') throw new SyntaxError('not a text');
  return parsed;
}
