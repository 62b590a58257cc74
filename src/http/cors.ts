/**
 * Lets web pages from the configured origins (`cors.origins`) call the routes for virtual keys, and answers their
 * preflight requests (docs/api/reference.md#browsers). We never allow credentials, so pages can't use cookies or the
 * routes for people and operators.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { responseHeaders } from './openapi/contract/parameters.ts';

const methods = 'GET, HEAD, POST, PATCH, DELETE';
/** The longest time for which Chromium caches a preflight response. Firefox would allow more. */
const maxAgeSeconds = 7_200;
const exposedHeaders = [
  'x-request-id',
  'request-id',
  'retry-after',
  'x-should-retry',
  ...Object.keys(responseHeaders).filter(isOwnHeader),
].join(', ');

function isOwnHeader(name: string): boolean {
  return name.startsWith('x-gateway-');
}

/**
 * Adds CORS headers to the responses of `next`. `origins` returns exact origins, or `*`. Responses to requests without
 * an `Origin` header stay unchanged.
 */
export function allowOrigins(origins: () => readonly string[], next: RequestListener): RequestListener {
  return (request, response) => {
    const allowed = request.headers.origin === undefined ? null : findAllowed(request, origins());
    if (allowed !== null) {
      response.setHeader('access-control-allow-origin', allowed);
      response.setHeader('access-control-expose-headers', exposedHeaders);
      if (allowed !== '*') response.setHeader('vary', 'Origin');
      if (request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined) {
        sendPreflight(request, response);
        return;
      }
    }
    next(request, response);
  };
}

/** Returns the value of `access-control-allow-origin`, or null if the page isn't allowed to call this path. */
function findAllowed({ headers: { origin = '' }, url = '' }: IncomingMessage, origins: readonly string[]): string | null {
  if (!isPathOfKeys(url)) return null;
  return origins.includes('*') ? '*' : origins.includes(origin) ? origin : null;
}

function isPathOfKeys(url: string): boolean {
  const path = url.split('?', 1)[0] ?? '';
  return path.startsWith('/v1/') || path === '/status/peek' || path === '/usage/me';
}

function sendPreflight({ headers }: IncomingMessage, response: ServerResponse): void {
  const requested = headers['access-control-request-headers'];
  response.setHeader('access-control-allow-methods', methods);
  // Allow any well-formed list of headers, because SDKs send their own, and access depends on the key alone.
  if (requested !== undefined && /^[\w!#$%&'*+.^`|~, -]{1,4096}$/.test(requested))
    response.setHeader('access-control-allow-headers', requested);
  response.setHeader('access-control-max-age', String(maxAgeSeconds));
  response.writeHead(204, { 'content-length': 0 });
  response.end();
}
