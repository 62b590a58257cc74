import { isDeepStrictEqual } from 'node:util';

/**
 * Returns the properties of `after` that differ from `before`, with the old and the new value. `from` is absent if the
 * property is new.
 */
export function changedMembers(before: object, after: object): Record<string, { readonly from?: unknown; readonly to: unknown }> {
  const old = new Map<string, unknown>(Object.entries(before));
  return Object.fromEntries(
    Object.entries(after)
      .filter(([name, to]) => name !== 'updated_at' && !isDeepStrictEqual(old.get(name), to))
      .map(([name, to]) => [name, old.has(name) ? { from: old.get(name), to } : { to }]),
  );
}
