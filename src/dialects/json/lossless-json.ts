/**
 * JSON that keeps the text of its numbers (parse-lossless.ts) on the way through a translation: `12345678901234567890`, `1.0` and `1e5` in tool schemas
 * and tool arguments are written as they were read. A number that JavaScript would write differently is kept as raw JSON (an object
 * of its own kind), so this room narrows parsed values with the functions here and not with those of `core/json.ts`.
 *
 * What does not survive: white space, repeated keys (the last stays), and the place of keys that are whole numbers, which come first.
 */
import type { JsonObject } from '../../core/json/narrow.ts';

export function isLosslessObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

/** The object, or an empty one for anything else. */
export function asLosslessObject(value: unknown): JsonObject {
  return isLosslessObject(value) ? value : {};
}

/** The number, whether or not its text is kept; undefined for anything else. */
export function asNumber(value: unknown): number | undefined {
  if (JSON.isRawJSON(value)) return Number(value.rawJSON);
  return typeof value === 'number' ? value : undefined;
}

/** The text, or null for an empty one and for anything else. */
export function asNonEmptyString(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** The members that have a value: neither null nor undefined. */
export function omitNullish(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null));
}

/** JSON text of a value a second time, with plain numbers; for the few places that count. */
export function toPlainNumbers(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
