/** Narrows the type of parsed JSON, which is `unknown` until we've checked it. */

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the value if it's an object, and an empty object otherwise. */
export function asObject(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** Returns the value if it's an array, and an empty array otherwise. */
export function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asString(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/**
 * Returns the value if it's a non-negative integer, and undefined otherwise. That lets callers tell a count of 0 from a
 * missing count.
 */
export function asCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/**
 * The maximum nesting depth in requests to the provisioning API and MCP. We need a limit because `JSON.stringify` and
 * schema validation are recursive.
 */
export const maxNesting = 100;

/** Returns true if objects and arrays are nested more than `levels` deep. */
export function isNestedDeeper(value: unknown, levels = maxNesting): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((member) => isNestedDeeper(member, levels - 1));
}

/** Like `JSON.parse`, but returns undefined if the text isn't valid JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // Callers treat invalid JSON like any other invalid value.
  }
}
