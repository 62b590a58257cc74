/** Writes records as JSON Lines in pieces, so that other calls never have to wait for more than one piece. */
import { parseJsonOrThrow } from '../../core/json/parse.ts';
import { takeTurn } from '../../core/turns.ts';

/** We write lines in pieces of about this many characters. A piece takes about a millisecond. */
const pieceLength = 256 * 1_024;

/**
 * JSON that PostgreSQL has already formatted. For a long string, formatting it again would take four times as long as
 * everything else that we do with it.
 */
export class FormattedJson {
  readonly json: string;

  constructor(json: string) {
    this.json = json;
  }

  toJSON(): unknown {
    return parseJsonOrThrow(this.json);
  }
}

/** Yields lines in pieces, and lets other work run after each full piece. Fields that are null are left out. */
export async function* toLinePieces(records: readonly object[]): AsyncGenerator<string, void> {
  let piece = '';
  for (const record of records) {
    for (const part of toParts(record)) {
      piece += part;
      if (piece.length < pieceLength) continue;
      yield piece;
      await takeTurn();
      piece = '';
    }
    piece += '\n';
  }
  if (piece !== '') yield piece;
  await takeTurn();
}

/**
 * Serializes a value in parts. This is three times as slow as JSON.stringify, so we only do it for values that don't
 * fit into one piece.
 */
function* toParts(value: unknown): Generator<string, void> {
  if (estimateLength(value) <= pieceLength)
    yield JSON.stringify(value, (_, member: unknown) => (member === null ? undefined : member)) ?? 'null';
  else if (typeof value === 'string') yield* toStringParts(value);
  else if (value instanceof FormattedJson) yield* cut(value.json);
  else if (Array.isArray(value)) {
    for (const [index, element] of value.entries()) {
      yield index === 0 ? '[' : ',';
      yield* toParts(element);
    }
    yield ']';
  } else {
    let separator = '{';
    for (const [name, member] of Object.entries(value as object)) {
      if (member === null || member === undefined) continue;
      yield `${separator}${JSON.stringify(name)}:`;
      yield* toParts(member);
      separator = ',';
    }
    yield '}';
  }
}

/**
 * Serializes a string in parts. It's fine if a cut separates a surrogate pair, because each half is escaped and parsers
 * join them again.
 */
function* toStringParts(text: string): Generator<string, void> {
  yield '"';
  for (let at = 0; at < text.length; at += pieceLength) yield JSON.stringify(text.slice(at, at + pieceLength)).slice(1, -1);
  yield '"';
}

/** Cuts a text into pieces, but never between the two halves of a surrogate pair. */
function* cut(text: string): Generator<string, void> {
  for (let at = 0; at < text.length; ) {
    const isPairCut = /[\ud800-\udbff]/.test(text.charAt(at + pieceLength - 1));
    const end = at + pieceLength + (isPairCut ? 1 : 0);
    yield text.slice(at, end);
    at = end;
  }
}

/** About how many characters a number with 17 digits takes. */
const numberLength = 20;

/** Estimates the length of a value's JSON. Stops counting once it's longer than a piece. */
function estimateLength(value: unknown): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value === 'number') return numberLength;
  if (typeof value !== 'object' || value === null) return 5;
  let length = 2;
  if (Array.isArray(value))
    for (const element of value) {
      length += estimateLength(element) + 1;
      if (length > pieceLength) break;
    }
  else
    for (const [name, member] of Object.entries(value)) {
      length += name.length + 3 + estimateLength(member) + 1;
      if (length > pieceLength) break;
    }
  return length;
}
