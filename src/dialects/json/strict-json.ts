/**
 * Strict readers for bodies that we translate. They throw if a body contains something that we don't know, instead of
 * silently dropping it.
 */
import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject } from './lossless-json.ts';

/**
 * Returns the object. Throws UntranslatableError if the value isn't an object, or if a field that isn't in `known` has
 * a value.
 */
export function expectKnownObject(value: unknown, what: string, known: ReadonlySet<string>): JsonObject {
  if (!isLosslessObject(value)) rejectUntranslatable(`${what} must be an object`);
  const unknown = Object.entries(value).find(([name, member]) => !known.has(name) && !isEmptyValue(member));
  if (unknown) rejectUntranslatable(`${what} has unknown fields`);
  return value;
}

/** Returns the string. Undefined and null become an empty string. Throws UntranslatableError for anything else. */
export function expectString(value: unknown, what: string): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : rejectUntranslatable(`${what} must be a string`);
}

/** Returns the array. Undefined and null become an empty array. Throws UntranslatableError for anything else. */
export function expectArray(value: unknown, what: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : rejectUntranslatable(`${what} must be a list`);
}

export function isSameJson(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function isEmptyValue(value: unknown): boolean {
  return value === null || value === undefined || (Array.isArray(value) && value.length === 0);
}

const maxChunkLength = 2_048;

/** Splits text into chunks for stream events. Surrogate pairs stay together. */
export function* splitText(text: string): Iterable<string> {
  for (let at = 0; at < text.length; ) {
    const last = text.charCodeAt(at + maxChunkLength - 1);
    const isHighSurrogate = last >= 0xd800 && last <= 0xdbff;
    const end = at + maxChunkLength - (isHighSurrogate ? 1 : 0);
    yield text.slice(at, end);
    at = end;
  }
}
