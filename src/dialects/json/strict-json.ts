/** Strict readers for response conversion: reject unknown members and split text into chunks. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject } from './lossless-json.ts';

/** The object, when each member with a value is in `known`. Throws UntranslatableError. */
export function expectKnownObject(value: unknown, what: string, known: ReadonlySet<string>): JsonObject {
  if (!isLosslessObject(value)) rejectUntranslatable(`${what} is not an object`);
  const unknown = Object.entries(value).find(([name, member]) => !known.has(name) && !isEmptyValue(member));
  if (unknown) rejectUntranslatable(`${what} has unknown members`);
  return value;
}

/** The string; empty for undefined and null. Throws UntranslatableError for anything else. */
export function expectString(value: unknown, what: string): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : rejectUntranslatable(`${what} is not a string`);
}

/** The array; empty for undefined and null. Throws UntranslatableError for anything else. */
export function expectArray(value: unknown, what: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : rejectUntranslatable(`${what} is not a list`);
}

/** Whether both values serialize to the same JSON text. */
export function isSameJson(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function isEmptyValue(value: unknown): boolean {
  return value === null || value === undefined || (Array.isArray(value) && value.length === 0);
}

const maxChunkLength = 2_048;

/** Splits text into chunks for stream events, never between the halves of a surrogate pair. */
export function* splitText(text: string): Iterable<string> {
  for (let at = 0; at < text.length; ) {
    const last = text.charCodeAt(at + maxChunkLength - 1);
    const isHighSurrogate = last >= 0xd800 && last <= 0xdbff;
    const end = at + maxChunkLength - (isHighSurrogate ? 1 : 0);
    yield text.slice(at, end);
    at = end;
  }
}
