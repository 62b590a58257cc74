/**
 * Reads JSON and keeps the text of its numbers (translate-json.ts says why). A reader of its own: `JSON.parse` with a function that looks at
 * each value took 5 µs a value, so that one body of eight megabytes full of small numbers held up all calls of a process for twenty seconds
 * (measured); this takes a tenth of that, and gives up where nobody means what was sent.
 */

/** Text of a JSON number that is written as it stands. */
interface RawJson {
  readonly rawJSON: string;
}

declare global {
  /** In Node since 21, not yet in TypeScript's library. */
  interface JSON {
    rawJSON(text: string): RawJson;
    isRawJSON(value: unknown): value is RawJson;
  }
}

/** Deeper than anybody means, and far from where writing what was read would run out of stack. */
const maxDepth = 1_000;

/** A long conversation has some ten thousand; so many take a good tenth of a second. */
const maxValues = 500_000;

/** The value; undefined when the text is not JSON, nested too deeply or has too many values. What can be read can be written again. */
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

  /** The code of the next character that is no white space, where `at` stands then. */
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
      // Set like any other, this one would not become a member.
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

  /** Behind a member: a comma and the next one, or the end. */
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
    // Escapes, and the control characters that may not stand here, are left to the engine.
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

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for.
const needsCare = /[\\\u0000-\u001f]/;

function unescaped(literal: string): string {
  const parsed: unknown = JSON.parse(literal);
  if (typeof parsed !== 'string') throw new SyntaxError('not a text');
  return parsed;
}
