/** Helpers for reading untrusted JSON. Values that are missing or have the wrong type are treated as empty. */

export type JsonObject = { readonly [name: string]: unknown };

/** Parses a body. Returns null if it isn't a JSON object. */
export function parseObject(body: Buffer): JsonObject | null {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return isObject(value) ? value : null;
  } catch {
    // The server responds with 400.
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

/** Rounds a number down. Returns null if the value isn't a number above 0. */
export function asCount(value: unknown): number | null {
  return typeof value === 'number' && value > 0 ? Math.floor(value) : null;
}
