/** `GET /status/peek` and `GET /usage/me` (docs/api/reference.md#status-and-usage). Neither counts as a call. */
import type { Request, Response } from 'express';
import type { Caller } from '../../core/call.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import type { FindCaller } from '../authenticate.ts';
import { parseKey } from '../authenticate.ts';
import { sendJson } from '../error-handler.ts';

export interface StatusRouteDeps {
  readonly findCaller: FindCaller;
  /** The `Status` response. Throws `limits_unavailable`, `no_db`, `query_failed`. */
  readonly getStatus: (caller: Caller) => Promise<unknown>;
  /** The `Usage` response. Throws `no_db`, `query_failed`. */
  readonly getUsage: (caller: Caller) => Promise<unknown>;
}

export function createStatusRoutes({ findCaller, getStatus, getUsage }: StatusRouteDeps) {
  return {
    async peek(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(parseKey(request.headers, false));
      sendJson(response, 200, await getStatus(caller).catch(asLimitsUnavailable));
    },
    async usage(request: Request, response: Response): Promise<void> {
      sendJson(response, 200, await getUsage(await findCaller(parseKey(request.headers, false))));
    },
  };
}

/** Usage is part of the limits of a key: this route reports every store outage as `limits_unavailable`. */
function asLimitsUnavailable(error: unknown): never {
  if (error instanceof GatewayError && (error.code === 'no_db' || error.code === 'query_failed'))
    throw gatewayError('limits_unavailable', { cause: error });
  throw error;
}
