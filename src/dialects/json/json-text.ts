/** Serializes values that may be nested too deeply for the stack, and follows JSON text that arrives in pieces. */
import { characters } from '../../core/json/characters.ts';
import { isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';

const { backslash, closeBrace, closeBracket, openBrace, openBracket, quote } = characters;

/**
 * Serializes a parsed value and passes each of its strings through `mapText`. Returns an empty string if the value is
 * nested too deeply.
 */
export function toJsonText(value: unknown, mapText?: (holder: unknown, key: string, text: string) => string): string {
  try {
    if (!mapText) return JSON.stringify(value) ?? '';
    return (
      JSON.stringify(value, function (this: unknown, key: string, member: unknown) {
        return typeof member === 'string' ? mapText(this, key, member) : member;
      }) ?? ''
    );
  } catch (error) {
    if (error instanceof RangeError) return ''; // JSON.stringify is recursive, but JSON.parse isn't.
    throw error;
  }
}

export type ObjectText = ReturnType<typeof createObjectText>;

/** Tracks whether a JSON object that arrives in pieces, e.g. the arguments of a tool call, is complete. */
export function createObjectText() {
  let unread = '';
  let read = '';
  let state: 'open' | 'complete' | 'invalid' = 'open';
  let depth = 0;
  let isInString = false;
  let isEscaped = false;

  /** Scans a piece. Returns true if it closes the outermost bracket. */
  const closesIn = (piece: string): boolean => {
    for (let at = 0; at < piece.length; at += 1) {
      const code = piece.charCodeAt(at);
      if (isEscaped) isEscaped = false;
      else if (isInString) {
        if (code === backslash) isEscaped = true;
        else if (code === quote) isInString = false;
      } else if (code === quote) isInString = true;
      else if (code === openBrace || code === openBracket) depth += 1;
      else if (code === closeBrace || code === closeBracket) {
        depth -= 1;
        if (depth <= 0) return true;
      }
    }
    return false;
  };

  const readPiece = (piece: string): void => {
    if (state === 'complete' && /[^ \t\n\r]/.test(piece)) state = 'invalid';
    if (state !== 'open') return;
    read += piece;
    // The outermost bracket closes only once, so this parses at most once.
    if (closesIn(piece)) state = isObject(parseJson(read)) ? 'complete' : 'invalid';
  };

  return {
    add(piece: string): void {
      if (state !== 'invalid') unread += piece;
    },
    /**
     * Returns true if the text is a complete JSON object that nothing but white space can follow. Scans each piece at
     * most once, and only when this is called.
     */
    isComplete(): boolean {
      if (unread !== '') readPiece(unread);
      unread = '';
      return state === 'complete';
    },
  };
}
