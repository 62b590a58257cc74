/** Checked access to untrusted JSON: a missing or wrongly typed value reads as empty. */

export type JsonObject = { readonly [name: string]: unknown };

/** Parses a body; null when it is not a JSON object. */
export function parseObject(body: Buffer): JsonObject | null {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return isObject(value) ? value : null;
  } catch {
    // Not an error here: the server responds with 400.
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

/** Returns the number, rounded down; null when it is not a number above 0. */
export function asCount(value: unknown): number | null {
  return typeof value === 'number' && value > 0 ? Math.floor(value) : null;
}
