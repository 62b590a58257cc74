/** Narrows parsed JSON, which is `unknown` until it has been checked. */

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object, or an empty one for anything else. */
export function asObject(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** The array, or an empty one for anything else. */
export function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asString(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/** A count: a non-negative integer; anything else is undefined. An explicit 0 is data, unlike a missing count. */
export function asCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Limit of objects and arrays within each other in requests of operators and of MCP: `JSON.stringify` and schemas are recursive. */
export const maxNesting = 100;

/** Whether objects and arrays are nested in more than `levels`. */
export function isNestedDeeper(value: unknown, levels = maxNesting): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((member) => isNestedDeeper(member, levels - 1));
}

/** Parsed text, or undefined when it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // Callers treat it like any other invalid value.
  }
}
