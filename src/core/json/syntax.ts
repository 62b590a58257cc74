/**
 * A JSON scanner (RFC 8259) that works on bytes. It finds out which kind of value starts at an offset, and where the
 * value ends. There's no recursion, so the nesting depth is only limited by the size of the text. Throws
 * JsonSyntaxError at the first invalid byte.
 */
import { characters } from './characters.ts';

export type ValueKind = 'string' | 'number' | 'object' | 'array' | 'true' | 'false' | 'null';

/** Thrown if the bytes aren't a JSON object in UTF-8. `message` can contain the offset, but never the content. */
export class JsonSyntaxError extends Error {
  constructor(reason: string, offset?: number) {
    super(offset === undefined ? reason : `${reason} at byte ${offset}`);
    this.name = 'JsonSyntaxError';
  }
}

const { quote, comma, colon, openBracket, backslash, closeBracket, openBrace, closeBrace } = characters;

export function kindAt(bytes: Buffer, at: number): ValueKind {
  switch (bytes[at]) {
    case quote:
      return 'string';
    case openBrace:
      return 'object';
    case openBracket:
      return 'array';
    case 0x74:
      return 'true';
    case 0x66:
      return 'false';
    case 0x6e:
      return 'null';
    default:
      return 'number';
  }
}

/**
 * Returns the end of the value that starts at `at`. We track nested containers on a stack of their closing brackets,
 * because recursion could overflow the call stack.
 */
export function skipValue(bytes: Buffer, at: number): number {
  const first = bytes[at];
  return first === openBrace || first === openBracket ? skipContainers(bytes, at, []) : skipScalar(bytes, at);
}

/** `at` is the end of an array element. Returns the end of the array. */
export function skipElements(bytes: Buffer, at: number): number {
  const next = skipSpace(bytes, at);
  if (bytes[next] === closeBracket) return next + 1;
  if (bytes[next] !== comma) throw new JsonSyntaxError('expected a comma or closing bracket', next);
  return skipContainers(bytes, skipSpace(bytes, next + 1), [closeBracket]);
}

/**
 * Scans from the value at `at` to the end of the outermost container that is still open. `closers` are the closing
 * brackets of the containers around the value, outermost first.
 */
function skipContainers(bytes: Buffer, at: number, closers: number[]): number {
  let position = at;
  for (;;) {
    const byte = bytes[position];
    if (byte === openBrace || byte === openBracket) {
      const closer = byte === openBrace ? closeBrace : closeBracket;
      const inner = skipSpace(bytes, position + 1);
      if (bytes[inner] !== closer) {
        closers.push(closer);
        position = closer === closeBrace ? skipKey(bytes, inner) : inner;
        continue;
      }
      position = inner + 1;
    } else {
      position = skipScalar(bytes, position);
    }
    // The end of a value may also be the end of several containers around it, so close all of those.
    for (;;) {
      const closer = closers[closers.length - 1];
      if (closer === undefined) return position;
      position = skipSpace(bytes, position);
      if (bytes[position] === closer) {
        closers.pop();
        position += 1;
        continue;
      }
      if (bytes[position] !== comma) throw new JsonSyntaxError('expected a comma or closing bracket', position);
      position = skipSpace(bytes, position + 1);
      if (closer === closeBrace) position = skipKey(bytes, position);
      break;
    }
  }
}

/** Returns the offset of the value that follows the key and its colon. */
function skipKey(bytes: Buffer, at: number): number {
  if (bytes[at] !== quote) throw new JsonSyntaxError('expected a key', at);
  const end = skipSpace(bytes, skipString(bytes, at));
  if (bytes[end] !== colon) throw new JsonSyntaxError('expected a colon', end);
  return skipSpace(bytes, end + 1);
}

function skipScalar(bytes: Buffer, at: number): number {
  switch (bytes[at]) {
    case quote:
      return skipString(bytes, at);
    case 0x74:
      return skipLiteral(bytes, at, 'true');
    case 0x66:
      return skipLiteral(bytes, at, 'false');
    case 0x6e:
      return skipLiteral(bytes, at, 'null');
    default:
      return skipNumber(bytes, at);
  }
}

/** Usually there's no white space, so the first comparison ends the loop. */
export function skipSpace(bytes: Buffer, at: number): number {
  let position = at;
  for (;;) {
    const byte = bytes[position];
    if (byte === undefined || byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) return position;
    position += 1;
  }
}

/**
 * Contains 1 for each byte that can be part of a string as it is, and 0 for quotes, backslashes and control characters.
 * Looking this up takes half as long as three comparisons (measured).
 */
const isPlain = Uint8Array.from({ length: 256 }, (_, byte) => (byte < 0x20 || byte === quote || byte === backslash ? 0 : 1));

/** Returns the end of the string whose opening quote is at `at`. */
export function skipString(bytes: Buffer, at: number): number {
  let position = at + 1;
  for (;;) {
    let byte = bytes[position];
    while (byte !== undefined && isPlain[byte] === 1) {
      position += 1;
      byte = bytes[position];
    }
    if (byte === undefined) throw new JsonSyntaxError('unterminated string', at);
    if (byte === quote) return position + 1;
    if (byte < 0x20) throw new JsonSyntaxError('control character in a string', position);
    position = skipEscape(bytes, position);
  }
}

function skipEscape(bytes: Buffer, at: number): number {
  switch (bytes[at + 1]) {
    case quote:
    case backslash:
    case 0x2f: // /
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return at + 2;
    case 0x75: // u
      for (let position = at + 2; position < at + 6; position += 1) {
        if (!isHexDigit(bytes[position])) throw new JsonSyntaxError('invalid escape sequence', at);
      }
      return at + 6;
    default:
      throw new JsonSyntaxError('invalid escape sequence', at);
  }
}

function skipLiteral(bytes: Buffer, at: number, literal: string): number {
  if (bytes.toString('latin1', at, at + literal.length) !== literal) throw new JsonSyntaxError('expected a value', at);
  return at + literal.length;
}

function skipNumber(bytes: Buffer, at: number): number {
  let position = bytes[at] === 0x2d ? at + 1 : at;
  if (bytes[position] === 0x30) position += 1;
  else position = skipDigits(bytes, position);
  if (bytes[position] === 0x2e) position = skipDigits(bytes, position + 1);
  if (bytes[position] === 0x65 || bytes[position] === 0x45) {
    const sign = bytes[position + 1];
    position = skipDigits(bytes, sign === 0x2b || sign === 0x2d ? position + 2 : position + 1);
  }
  return position;
}

/** Returns the offset after the last digit. Throws if there is none. */
function skipDigits(bytes: Buffer, at: number): number {
  let position = at;
  while (isDigit(bytes[position])) position += 1;
  if (position === at) throw new JsonSyntaxError('expected a value', at);
  return position;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

function isHexDigit(byte: number | undefined): boolean {
  return isDigit(byte) || (byte !== undefined && ((byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66)));
}
