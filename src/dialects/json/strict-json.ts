/** What the two forms of an answer share: refusing members that nobody knows, and cutting text into pieces. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { refuse } from '../contract/untranslatable.ts';
import { isObject } from './lossless-json.ts';

/** The object, all of whose members with a value are `known`. Throws Untranslatable. */
export function knownObject(value: unknown, what: string, known: ReadonlySet<string>): JsonObject {
  if (!isObject(value)) refuse(`${what} is no object`);
  const unknown = Object.entries(value).find(([name, member]) => !known.has(name) && !saysNothing(member));
  if (unknown) refuse(`${what} has members that are not known`);
  return value;
}

/** The text; empty where there is none. Throws Untranslatable for anything else. */
export function textOrNone(value: unknown, what: string): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : refuse(`${what} is no text`);
}

/** Throws Untranslatable. */
export function listOrNone(value: unknown, what: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : refuse(`${what} is no list`);
}

/** The same JSON. */
export function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function saysNothing(value: unknown): boolean {
  return value === null || value === undefined || (Array.isArray(value) && value.length === 0);
}

const longestPiece = 2_048;

/** Pieces of a text for the events of a stream; no piece ends between the halves of a character. */
export function* piecesOf(text: string): Iterable<string> {
  for (let at = 0; at < text.length; ) {
    const isHalf = isHighSurrogate(text.charCodeAt(at + longestPiece - 1));
    const end = at + longestPiece - (isHalf ? 1 : 0);
    yield text.slice(at, end);
    at = end;
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
