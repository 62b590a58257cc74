import type { Reservation } from '../../ceilings/reservation.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import type { ProjectContext } from './project-context.ts';

/**
 * Throws the error of a failed plan. If all that's missing is a price, but the project can't make calls or `admit`
 * rejects because of a ceiling, it throws that error instead. Otherwise, the caller would look for another model in
 * vain.
 */
export async function throwCappedFirst(
  error: unknown,
  { mayCall }: Pick<ProjectContext, 'mayCall'>,
  admit: () => Promise<Pick<Reservation, 'release'>>,
): Promise<never> {
  if (error instanceof GatewayError && error.refusal?.reason === 'model_without_price') {
    if (!mayCall) throw callsOff();
    (await admit()).release();
  }
  throw error;
}

/** Creates the error for calls of a project that can't make any. */
export function callsOff(): GatewayError {
  return gatewayError('subscription_required', { refusal: { reason: 'calls_off' } });
}
