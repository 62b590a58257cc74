/** `GET /status/peek` and `GET /usage/me` (specification 4.4). Neither uses a call slot. */
import type { Request, Response } from 'express';
import type { Caller } from '../../core/call.ts';
import type { FindCaller } from '../authenticate.ts';
import { readKey } from '../authenticate.ts';
import { sendJson } from '../error-handler.ts';

export interface StatusRouteDeps {
  readonly findCaller: FindCaller;
  /** The status response of shapes 1. Throws `limits_unavailable`. */
  readonly statusOf: (caller: Caller) => Promise<unknown>;
  /** The usage response of shapes 2. Throws `no_db`, `query_failed`. */
  readonly usageOf: (caller: Caller) => Promise<unknown>;
}

export function createStatusRoutes({ findCaller, statusOf, usageOf }: StatusRouteDeps) {
  return {
    async peek(request: Request, response: Response): Promise<void> {
      sendJson(response, 200, await statusOf(await findCaller(readKey(request.headers, false))));
    },
    async usage(request: Request, response: Response): Promise<void> {
      sendJson(response, 200, await usageOf(await findCaller(readKey(request.headers, false))));
    },
  };
}
