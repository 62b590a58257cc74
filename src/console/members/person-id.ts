import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import type { ConsoleContext } from '../frame/route.ts';

/** Throws `not_found` if the path contains no UUID. */
export function personIdOf({ params }: ConsoleContext): string {
  const { person = '' } = params;
  if (!isUuid(person)) throw gatewayError('not_found', { message: 'no such person' });
  return person;
}
