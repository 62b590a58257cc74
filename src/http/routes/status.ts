/** `GET /status/peek` and `GET /usage/me` (docs/api/reference.md#status-and-usage). Neither counts as a call. */
import type { Caller } from '../../core/call.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { createCallerRoute, type FindCaller } from '../authenticate.ts';

export interface StatusRouteDeps {
  readonly findCaller: FindCaller;
  /** The `Status` response. Throws `limits_unavailable`, `no_db`, `query_failed`. */
  readonly getStatus: (caller: Caller) => Promise<unknown>;
  /** The `Usage` response. Throws `no_db`, `query_failed`. */
  readonly getUsage: (caller: Caller) => Promise<unknown>;
}

export function createStatusRoutes({ findCaller, getStatus, getUsage }: StatusRouteDeps) {
  return {
    peek: createCallerRoute(findCaller, (caller) => getStatus(caller).catch(asLimitsUnavailable)),
    usage: createCallerRoute(findCaller, getUsage),
  };
}

/** Usage is part of the limits of a key: this route reports every store outage as `limits_unavailable`. */
function asLimitsUnavailable(error: unknown): never {
  if (error instanceof GatewayError && (error.code === 'no_db' || error.code === 'query_failed'))
    throw gatewayError('limits_unavailable', { cause: error });
  throw error;
}
