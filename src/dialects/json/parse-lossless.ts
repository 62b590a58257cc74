/**
 * Parses JSON and keeps the text of numbers that JavaScript would change (see lossless-json.ts). `JSON.parse` with a reviver took 5 µs per
 * value, so an 8 MB body of small numbers blocked a process for twenty seconds (measured); this parser takes a tenth and limits depth and
 * number of values.
 */

/** A JSON number that is serialized as its original text. */
interface RawJson {
  readonly rawJSON: string;
}

declare global {
  /** In Node since 21; not in TypeScript's library. */
  interface JSON {
    rawJSON(text: string): RawJson;
    isRawJSON(value: unknown): value is RawJson;
  }
}

/** Deeper than real requests, and shallow enough that serializing the value cannot overflow the stack. */
const maxDepth = 1_000;

/** A long conversation has some ten thousand; the maximum takes a tenth of a second. */
const maxValues = 500_000;

/** The parsed value, which can be serialized again. Undefined when the text is not JSON, or exceeds the depth or value limit. */
export function parseLossless(text: string): unknown {
  try {
    return createReader(text).readWhole();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

const space = 0x20;
const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

function createReader(text: string): { readWhole(): unknown } {
  const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
  let at = 0;
  let values = 0;

  const fail = (): never => {
    throw new SyntaxError(`not JSON at ${at}`);
  };

  /** Skips white space and returns the character code at the new position. */
  const next = (): number => {
    let code = text.charCodeAt(at);
    while (code === space || code === 0x0a || code === 0x0d || code === 0x09) {
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
      // Assigning `__proto__` would set the prototype instead of a member.
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

  /** After a member: consumes a comma (false) or the closing character (true). */
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
    // Strings with escapes or with (forbidden) control characters are left to the engine.
    return needsCare.test(inner) ? unescaped(text.slice(start, at)) : inner;
  };

  const isEscaped = (position: number): boolean => {
    let first = position;
    while (text.charCodeAt(first - 1) === 0x5c) first -= 1;
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
