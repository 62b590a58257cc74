import { isDeepStrictEqual } from 'node:util';

/**
 * Returns the properties that are different in `after`, with their old and new values. If a property is new, `from` is
 * absent.
 */
export function changedMembers(before: object, after: object): Record<string, { readonly from?: unknown; readonly to: unknown }> {
  const old = new Map<string, unknown>(Object.entries(before));
  return Object.fromEntries(
    Object.entries(after)
      .filter(([name, to]) => name !== 'updated_at' && !isDeepStrictEqual(old.get(name), to))
      .map(([name, to]) => [name, old.has(name) ? { from: old.get(name), to } : { to }]),
  );
}
