/**
 * Identifies the caller by the virtual key in the headers, before we read the body
 * (docs/api/reference.md#authentication).
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Request, Response } from 'express';
import type { Caller } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';
import { sendJson } from './error-handler.ts';

/** Returns the caller to whom a key belongs. Throws authentication errors. */
export type FindCaller = (secret: string) => Promise<Caller>;

export function createCallerRoute(findCaller: FindCaller, respond: (caller: Caller, request: Request) => Promise<unknown>, status = 200) {
  return async (request: Request, response: Response): Promise<void> => {
    const caller = await findCaller(parseKey(request.headers, false));
    sendJson(response, status, await respond(caller, request));
  };
}

/**
 * Returns the key from `Authorization: Bearer <key>`. The scheme is case-insensitive (RFC 9110 11.1). The messages
 * routes also accept `x-api-key` if there is no `Authorization` header. Throws `missing_key`.
 */
export function parseKey(headers: IncomingHttpHeaders, allowsApiKey: boolean): string {
  const { authorization } = headers;
  if (authorization !== undefined) {
    const isBearer = authorization.length > 7 && authorization.slice(0, 7).toLowerCase() === 'bearer ';
    const key = isBearer ? authorization.slice(7) : '';
    if (key === '' || /\s/.test(key)) throw gatewayError('missing_key');
    return key;
  }
  const apiKey = allowsApiKey ? headers['x-api-key'] : undefined;
  if (typeof apiKey !== 'string' || apiKey === '') throw gatewayError('missing_key');
  return apiKey;
}
