/**
 * Narrowing of values from `parseLossless`, which keep the text of numbers through a translation: `12345678901234567890`, `1.0` and `1e5`
 * in tool schemas and arguments are written as they were read. Such a number is a raw JSON object, which `core/json` would take for a
 * JSON object; use these functions instead.
 *
 * Not preserved: white space, duplicate keys (the last wins), and the position of integer keys, which come first.
 */
import type { JsonObject } from '../../core/json/narrow.ts';

export function isLosslessObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

/** The object, or an empty one for anything else. */
export function asLosslessObject(value: unknown): JsonObject {
  return isLosslessObject(value) ? value : {};
}

/** The number, also of raw JSON. Undefined for anything else. */
export function asNumber(value: unknown): number | undefined {
  if (JSON.isRawJSON(value)) return Number(value.rawJSON);
  return typeof value === 'number' ? value : undefined;
}

/** The string. Null for an empty one and for anything else. */
export function asNonEmptyString(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** The members that are neither null nor undefined. */
export function omitNullish(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null));
}

/** A copy with plain numbers, for arithmetic. */
export function toPlainNumbers(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
