/**
 * A JSON parser (RFC 8259) that doesn't use recursion. We only use it where we can't use `JSON.parse`, which is several
 * times faster (see parse.ts and dialects/json/parse-lossless.ts).
 */
import { characters } from './characters.ts';

const { quote, comma, colon, openBracket, backslash, closeBracket, openBrace, closeBrace } = characters;

export interface ReaderOptions {
  /** Returns the value of a number that's written as `text`. */
  readonly toNumber: (text: string) => unknown;
  readonly maxDepth?: number;
  readonly maxValues?: number;
}

/**
 * Throws a SyntaxError if the text isn't JSON, or if it exceeds a limit. As with `JSON.parse`, the last value of a
 * repeated key wins.
 */
export function readJson(
  text: string,
  { toNumber, maxDepth = Number.POSITIVE_INFINITY, maxValues = Number.POSITIVE_INFINITY }: ReaderOptions,
): unknown {
  const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
  /** The containers that are still open, outermost first. */
  const containers: (unknown[] | Record<string, unknown>)[] = [];
  /** For each open object, the key of the value that comes next. Arrays have an empty string. */
  const keys: string[] = [];
  let at = 0;
  let values = 0;

  const fail = (): never => {
    throw new SyntaxError(`invalid JSON at position ${at}`);
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

  const readString = (): string => {
    const start = at;
    at = endOfString(text, start);
    if (at === 0) fail();
    const inner = text.slice(start + 1, at - 1);
    return inner.length >= minSliceLength || needsCare.test(inner) ? unescaped(text.slice(start, at)) : inner;
  };

  const readKey = (): string => {
    if (next() !== quote) fail();
    const key = readString();
    if (next() !== colon) fail();
    at += 1;
    return key;
  };

  const readNumber = (): unknown => {
    number.lastIndex = at;
    if (!number.test(text)) fail();
    const written = text.slice(at, number.lastIndex);
    at = number.lastIndex;
    return toNumber(written);
  };

  const readWord = <Value>(word: string, value: Value): Value => {
    if (!text.startsWith(word, at)) fail();
    at += word.length;
    return value;
  };

  /** Returns the container if it's empty. Otherwise returns `unfinished`, and its first member is read next. */
  const open = (container: unknown[] | Record<string, unknown>, close: number): unknown => {
    if (containers.length >= maxDepth) fail();
    at += 1;
    if (next() === close) {
      at += 1;
      return container;
    }
    containers.push(container);
    keys.push(close === closeBrace ? readKey() : '');
    return unfinished;
  };

  const readValue = (): unknown => {
    values += 1;
    if (values > maxValues) fail();
    switch (next()) {
      case quote:
        return readString();
      case openBrace:
        return open({}, closeBrace);
      case openBracket:
        return open([], closeBracket);
      case 0x74:
        return readWord('true', true);
      case 0x66:
        return readWord('false', false);
      case 0x6e:
        return readWord('null', null);
      default:
        return readNumber();
    }
  };

  /** Consumes the comma or closing bracket after a value. Returns true if it was the bracket. */
  const endsAfter = (close: number): boolean => {
    const code = next();
    if (code !== comma && code !== close) fail();
    at += 1;
    return code === close;
  };

  for (;;) {
    let value = readValue();
    // A value may end several containers at once.
    while (value !== unfinished) {
      const container = containers.at(-1);
      if (container === undefined) {
        next();
        return at === text.length ? value : fail();
      }
      const isList = Array.isArray(container);
      if (isList) container.push(value);
      else setMember(container, keys.at(-1) ?? '', value);
      if (endsAfter(isList ? closeBracket : closeBrace)) {
        containers.pop();
        keys.pop();
        value = container;
      } else {
        if (!isList) keys[keys.length - 1] = readKey();
        break;
      }
    }
  }
}

const unfinished = Symbol('unfinished');

/**
 * `at` is the opening quote of a string or any position inside the string. Returns the offset after its closing quote,
 * or 0 if the string isn't closed.
 */
export function endOfString(text: string, at: number): number {
  let end = text.indexOf('"', at + 1);
  while (end > 0 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end + 1;
}

function isEscaped(text: string, position: number): boolean {
  let first = position;
  while (text.charCodeAt(first - 1) === backslash) first -= 1;
  return (position - first) % 2 === 1;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: matches control characters on purpose.
const needsCare = /[\\\u0000-\u001f]/;

/**
 * V8's `slice` doesn't copy strings of this length or more, but makes them refer to the whole source. A short string in
 * a cache could then keep a whole request in memory, so we use `JSON.parse`, which does copy it.
 */
const minSliceLength = 13;

/** `JSON.parse` also handles escapes and rejects control characters. */
function unescaped(literal: string): string {
  const parsed: unknown = JSON.parse(literal);
  if (typeof parsed !== 'string') throw new SyntaxError('expected a string');
  return parsed;
}

function setMember(object: Record<string, unknown>, key: string, value: unknown): void {
  // A normal assignment to `__proto__` would set the object's prototype instead of adding a field.
  if (key === '__proto__') Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  else object[key] = value;
}
