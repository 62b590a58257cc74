/** Keeps two people who edit the same settings from overwriting each other's changes. */
import { isDeepStrictEqual } from 'node:util';
import { gatewayError } from '../core/errors.ts';

/** Members of stored settings as their editor read them. */
export type ReadSettings = Readonly<Record<string, unknown>>;

/** Throws `conflict` when a member of `read` has another value in `current`. Call it in the transaction that writes. */
export function assertUnchanged(current: object, read: ReadSettings | undefined): void {
  const values: ReadonlyMap<string, unknown> = new Map(Object.entries(current));
  const changed = Object.entries(read ?? {}).flatMap(([name, value]) => (isDeepStrictEqual(values.get(name), value) ? [] : [name]));
  if (changed.length > 0) throw gatewayError('conflict', { message: `changed since they were read: ${changed.join(', ')}` });
}
