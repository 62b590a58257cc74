/**
 * Optimistic locking for settings, so that two people who edit them at the same time don't overwrite each other's
 * changes.
 */
import { isDeepStrictEqual } from 'node:util';
import { gatewayError } from '../core/errors.ts';

export type ReadSettings = Readonly<Record<string, unknown>>;

/**
 * Throws `conflict` if a setting in `read` has a different value in `current`. Call this in the transaction that writes
 * the settings.
 */
export function assertNotModified(current: object, read: ReadSettings | undefined): void {
  const values: ReadonlyMap<string, unknown> = new Map(Object.entries(current));
  const changed = Object.entries(read ?? {}).flatMap(([name, value]) => (isDeepStrictEqual(values.get(name), value) ? [] : [name]));
  if (changed.length > 0)
    throw gatewayError('conflict', {
      message: 'these settings have changed since you read them; read them again and repeat the change',
      issues: changed.map((path) => ({ path, message: 'has changed since you read it' })),
    });
}
