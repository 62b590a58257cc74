/**
 * `GET /status/peek` and `GET /usage/me` (docs/api/reference.md#status-and-usage). These requests don't count as calls.
 */
import type { Caller } from '../../core/call.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { createCallerRoute, type FindCaller } from '../authenticate.ts';

export interface StatusRouteDeps {
  readonly findCaller: FindCaller;
  /** Returns the `Status` response. Throws `limits_unavailable`, `no_db` and `query_failed`. */
  readonly getStatus: (caller: Caller) => Promise<unknown>;
  /** Returns the `Usage` response. Throws `no_db` and `query_failed`. */
  readonly getUsage: (caller: Caller) => Promise<unknown>;
}

export function createStatusRoutes({ findCaller, getStatus, getUsage }: StatusRouteDeps) {
  return {
    peek: createCallerRoute(findCaller, (caller) => getStatus(caller).catch(asLimitsUnavailable)),
    usage: createCallerRoute(findCaller, getUsage),
  };
}

/**
 * Maps all outages of the database to `limits_unavailable`. The response always needs the database, because it shows
 * the key's limits together with their usage.
 */
function asLimitsUnavailable(error: unknown): never {
  if (error instanceof GatewayError && (error.code === 'no_db' || error.code === 'query_failed'))
    throw gatewayError('limits_unavailable', { cause: error });
  throw error;
}
