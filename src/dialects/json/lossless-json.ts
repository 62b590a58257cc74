/**
 * Narrows values from `parseLossless`. They keep the original text of numbers, so that `12345678901234567890`, `1.0`
 * and `1e5` in tool schemas and arguments survive a translation unchanged. Such a number is a raw JSON object, so use
 * these functions rather than those of `core/json`, which would mistake it for a JSON object.
 *
 * We don't preserve white space, duplicate keys (the last one wins), or the position of integer keys, which move to the
 * front.
 */
import type { JsonObject } from '../../core/json/narrow.ts';

export function isLosslessObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

/** Returns the object, or an empty object for anything else. */
export function asLosslessObject(value: unknown): JsonObject {
  return isLosslessObject(value) ? value : {};
}

/** Returns the number, which may be raw JSON. Returns undefined for anything else. */
export function asNumber(value: unknown): number | undefined {
  if (JSON.isRawJSON(value)) return Number(value.rawJSON);
  return typeof value === 'number' ? value : undefined;
}

/** Returns null if the value is empty or isn't a string. */
export function asNonEmptyString(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** Drops the members that are null or undefined. */
export function omitNullish(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null));
}

/** Returns a copy that has plain numbers, so that you can calculate with them. */
export function toPlainNumbers(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
