/** Narrows parsed JSON, which is `unknown` until we've checked it. */

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the object, or an empty one if the value isn't an object. */
export function asObject(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** Returns the array, or an empty one if the value isn't an array. */
export function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asString(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/**
 * Returns a count, i.e. a non-negative integer, or undefined for anything else. An explicit 0 counts as a value, unlike
 * a missing count.
 */
export function asCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/**
 * How deeply objects and arrays may be nested in requests of operators and of MCP. We need a limit because
 * `JSON.stringify` and schemas are recursive.
 */
export const maxNesting = 100;

/** Reports whether objects and arrays are nested more than `levels` deep. */
export function isNestedDeeper(value: unknown, levels = maxNesting): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((member) => isNestedDeeper(member, levels - 1));
}

/** Parses JSON. Returns undefined if the text isn't valid. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // Callers treat it like any other invalid value.
  }
}
