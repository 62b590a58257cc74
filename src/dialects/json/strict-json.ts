/** What the two forms of an answer share: refusing members that nobody knows, and cutting text into pieces. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject } from './lossless-json.ts';

/** The object, all of whose members with a value are `known`. Throws Untranslatable. */
export function expectKnownObject(value: unknown, what: string, known: ReadonlySet<string>): JsonObject {
  if (!isLosslessObject(value)) rejectUntranslatable(`${what} is no object`);
  const unknown = Object.entries(value).find(([name, member]) => !known.has(name) && !isEmptyValue(member));
  if (unknown) rejectUntranslatable(`${what} has members that are not known`);
  return value;
}

/** The text; empty where there is none. Throws Untranslatable for anything else. */
export function expectString(value: unknown, what: string): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : rejectUntranslatable(`${what} is no text`);
}

/** Throws Untranslatable. */
export function expectArray(value: unknown, what: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : rejectUntranslatable(`${what} is no list`);
}

/** The same JSON. */
export function isSameJson(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function isEmptyValue(value: unknown): boolean {
  return value === null || value === undefined || (Array.isArray(value) && value.length === 0);
}

const maxChunkLength = 2_048;

/** Pieces of a text for the events of a stream; no piece ends between the halves of a character. */
export function* splitText(text: string): Iterable<string> {
  for (let at = 0; at < text.length; ) {
    const isHalf = isHighSurrogate(text.charCodeAt(at + maxChunkLength - 1));
    const end = at + maxChunkLength - (isHalf ? 1 : 0);
    yield text.slice(at, end);
    at = end;
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
