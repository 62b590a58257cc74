/** Reading JSON that others wrote: every look is checked, what is missing reads as empty. */

export type JsonObject = { readonly [name: string]: unknown };

/** Null when the body is no JSON object. */
export function parseObject(body: Buffer): JsonObject | null {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return isObject(value) ? value : null;
  } catch {
    // Not JSON is an answer here: the caller makes a 400 of it.
    return null;
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function asObject(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

export function asObjects(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function asString(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Null when it is no number above 0. */
export function asCount(value: unknown): number | null {
  return typeof value === 'number' && value > 0 ? Math.floor(value) : null;
}
