/**
 * Narrows values from `parseLossless`, which keeps the original text of numbers. This way `12345678901234567890`, `1.0`
 * and `1e5` in tool schemas and arguments survive a translation unchanged. Such a number is a raw JSON object. The
 * functions in `core/json` would mistake it for a normal object, so use these instead.
 *
 * White space, duplicate keys (the last one wins) and the position of integer keys (they move to the front) aren't
 * preserved.
 */
import type { JsonObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';

export function isLosslessObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

export function asLosslessObject(value: unknown): JsonObject {
  return isLosslessObject(value) ? value : {};
}

/** Returns the value if it's a number or a number in raw JSON, otherwise undefined. */
export function asNumber(value: unknown): number | undefined {
  if (JSON.isRawJSON(value)) return Number(value.rawJSON);
  return typeof value === 'number' ? value : undefined;
}

export function asNonEmptyString(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

export function omitNullish(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null));
}

/** Returns a copy with plain JavaScript numbers, for calculations. */
export function toPlainNumbers(value: unknown): unknown {
  return value === undefined ? undefined : parseJson(JSON.stringify(value));
}
