/**
 * `GET /status/peek` and `GET /usage/me` (docs/api/reference.md#status-and-usage). These requests don't count as calls.
 */
import type { Caller } from '../../core/call.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { createCallerRoute, type FindCaller } from '../authenticate.ts';

export interface StatusRouteDeps {
  readonly findCaller: FindCaller;
  /** Returns a `Status`. Throws `limits_unavailable`, `no_db` and `query_failed`. */
  readonly getStatus: (caller: Caller) => Promise<unknown>;
  /** Returns a `Usage`. Throws `no_db` and `query_failed`. */
  readonly getUsage: (caller: Caller) => Promise<unknown>;
}

export function createStatusRoutes({ findCaller, getStatus, getUsage }: StatusRouteDeps) {
  return {
    peek: createCallerRoute(findCaller, (caller) => getStatus(caller).catch(asLimitsUnavailable)),
    usage: createCallerRoute(findCaller, getUsage),
  };
}

/** Maps database outages to `limits_unavailable`, because the response can't be built without the database. */
function asLimitsUnavailable(error: unknown): never {
  if (error instanceof GatewayError && (error.code === 'no_db' || error.code === 'query_failed'))
    throw gatewayError('limits_unavailable', { cause: error });
  throw error;
}
