/** Writes records as JSON Lines in pieces, so that other calls only ever wait for one piece. */
import { takeTurn } from '../../core/turns.ts';

/** A piece takes about a millisecond to write. */
const pieceLength = 256 * 1_024;

/** Yields the lines in pieces. After each full piece we let other work run. Members that are null are left out. */
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
}

/** Splitting a record takes three times as long as a single JSON.stringify, so we only split long ones. */
function* toParts(value: unknown): Generator<string, void> {
  if (!isLong(value)) yield JSON.stringify(value, (_, member: unknown) => (member === null ? undefined : member)) ?? 'null';
  else if (typeof value === 'string') yield* toStringParts(value);
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

/** If we cut a surrogate pair, its halves become two escapes, and parsers join them again. */
function* toStringParts(text: string): Generator<string, void> {
  yield '"';
  for (let at = 0; at < text.length; at += pieceLength) yield JSON.stringify(text.slice(at, at + pieceLength)).slice(1, -1);
  yield '"';
}

/** Reports whether the value contains a string that is longer than one piece. */
function isLong(value: unknown): boolean {
  if (typeof value === 'string') return value.length > pieceLength;
  return typeof value === 'object' && value !== null && Object.values(value).some(isLong);
}
