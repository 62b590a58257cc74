/** Lenient readers for untrusted JSON. If something is missing or has the wrong type, they treat it as empty. */

export type JsonObject = { readonly [name: string]: unknown };

export function parseObject(body: Buffer): JsonObject | null {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return isObject(value) ? value : null;
  } catch {
    // The caller responds with a 400.
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

/** Rounds a positive number down. Returns null for any other value. */
export function asCount(value: unknown): number | null {
  return typeof value === 'number' && value > 0 ? Math.floor(value) : null;
}
