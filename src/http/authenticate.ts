/** Finds the caller by the virtual key in the headers, before any byte of the body is read (docs/api/reference.md#authentication). */
import type { IncomingHttpHeaders } from 'node:http';
import type { Request, Response } from 'express';
import type { Caller } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';
import { sendJson } from './error-handler.ts';

/** Finds the caller of a key. Throws the authentication codes. Synchronous while the key is cached. */
export type FindCaller = (secret: string) => Caller | Promise<Caller>;

/** Returns a handler that sends the JSON that `respond` returns for the caller. */
export function createCallerRoute(findCaller: FindCaller, respond: (caller: Caller, request: Request) => Promise<unknown>, status = 200) {
  return async (request: Request, response: Response): Promise<void> => {
    const caller = await findCaller(parseKey(request.headers, false));
    sendJson(response, status, await respond(caller, request));
  };
}

/**
 * The key of `Authorization: Bearer <key>`, with the scheme in any case (RFC 9110 11.1). `x-api-key` is used on messages, and only
 * without `Authorization`. Throws `missing_key`.
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
