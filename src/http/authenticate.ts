/** Reads the virtual key from the headers and finds its owner, before any byte of the body (specification 5). */
import type { IncomingHttpHeaders } from 'node:http';
import type { Caller } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';

/** Where callers are found; what it throws are the codes of specification 5. Synchronous while the key is in memory. */
export type FindCaller = (secret: string) => Caller | Promise<Caller>;

/** The key: `Bearer`, one space, the key (scheme in any case, RFC 9110 11.1). `x-api-key` counts on messages, and only without `Authorization`. */
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
