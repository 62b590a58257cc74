/**
 * The codec server decodes and encodes payloads for the Temporal UI and CLI (https://docs.temporal.io/codec-server).
 *
 * In a browser, you sign in with the admin token on the server's own page, and from then on the UI's requests contain
 * the session cookie. The CLI sends the token itself (`--codec-auth`). So that other pages can't use the cookie, we
 * only accept a browser's requests if their `Origin` is a configured UI, and forms only if it's the server's own
 * origin. Payloads and tokens are never logged.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../core/time.ts';
import type { Logger } from '../observability/logger.ts';
import type { CodecServerSettings } from './codec-server-options.ts';
import { BadPayloadsError, createPayloadJsonCodec } from './payload-json.ts';
import { BodyTooLargeError, readBody } from './read-body.ts';
import { createSessions } from './sessions.ts';
import { formatSignedInPage, formatSignInPage, pageHeaders } from './sign-in-page.ts';
import { createTokenCheck, failureWindowMs } from './token-check.ts';

export type CodecServer = Awaited<ReturnType<typeof createCodecServer>>;

export interface CodecServerOptions extends CodecServerSettings {
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * A request contains the payloads of one event. Temporal limits a blob to 2 MiB, and base64 makes it a third larger.
 */
const maxPayloadsBytes = 4 * 1024 * 1024;
const maxFormBytes = 4 * 1024;
const requestTimeoutMs = 30_000;
const retryAfter = { 'retry-after': String(failureWindowMs / 1_000) };

/** Starts the server. Rejects if it can't listen. */
export async function createCodecServer(options: CodecServerOptions) {
  const { host, port, uiOrigins, publicUrl, adminTokens, payloadKeys, clock, logger } = options;
  const sessions = createSessions(publicUrl?.startsWith('https:') ?? false, clock);
  const checkToken = createTokenCheck(adminTokens, clock);
  const codec = createPayloadJsonCodec(payloadKeys);
  let ownOrigins: readonly string[] = [];

  const server = createServer({ requestTimeout: requestTimeoutMs }, (request, response) => {
    serve(request, response).catch((error: unknown) => {
      if (response.headersSent || request.socket.destroyed) response.destroy();
      else if (error instanceof BodyTooLargeError) sendError(response, 413, error.message);
      else {
        logger.error({ err: error }, 'codec server request failed');
        sendError(response, 500, 'internal error');
      }
    });
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve));
  const boundPort = (server.address() as AddressInfo).port;
  ownOrigins = publicUrl === null ? loopbackOrigins(uiOrigins, boundPort) : [publicUrl];
  return {
    /** The public URL. People enter it in the settings of Temporal's UI, and open it in their browser to sign in. */
    url: ownOrigins[0] ?? '',
    port: boundPort,
    close: () =>
      new Promise<void>((resolve, reject) => {
        server.close((error) => (error ? reject(error) : resolve()));
        server.closeAllConnections();
      }),
  };

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = ''] = (request.url ?? '').split('?', 1);
    const route = `${request.method} ${path}`;
    switch (route) {
      case 'GET /':
        return sendHome(request, response);
      case 'POST /sign-in':
        return signIn(request, response);
      case 'POST /sign-out':
        return signOut(request, response);
      case 'OPTIONS /decode':
      case 'OPTIONS /encode':
      case 'POST /decode':
      case 'POST /encode':
        return convert(request, response, path === '/decode' ? codec.decode : codec.encode);
      default:
        return sendError(response, 404, 'not found; the codec server has /, /decode and /encode');
    }
  }

  function sendHome({ headers }: IncomingMessage, response: ServerResponse): void {
    const origin = ownOriginOf(headers.host);
    // Browsers don't send a cookie for `localhost` to 127.0.0.1 or vice versa. So before people sign in, we redirect
    // them to the host name that they use for the Temporal UI.
    if (publicUrl === null && new URL(origin).host !== headers.host) {
      redirect(response, `${origin}/`);
      return;
    }
    const until = sessions.endOf(headers.cookie);
    sendPage(response, 200, until === null ? formatSignInPage(null) : formatSignedInPage({ endpoint: origin, until }));
  }

  async function signIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!isOwnForm(request)) return sendPage(response, 403, formatSignInPage(`Open this page at ${ownOrigins.join(' or ')}.`));
    const token = new URLSearchParams(await readBody(request, maxFormBytes)).get('token') ?? '';
    const address = request.socket.remoteAddress ?? '';
    switch (checkToken(token.trim(), address)) {
      case 'valid':
        logger.info({ address }, 'signed in to the codec server');
        return redirect(response, '/', { 'set-cookie': sessions.start() });
      case 'invalid':
        logger.warn({ address }, 'rejected a sign-in to the codec server');
        return sendPage(response, 401, formatSignInPage('The admin token is invalid.'));
      case 'limited':
        return sendPage(response, 429, formatSignInPage('Too many attempts. Try again in a minute.'), retryAfter);
    }
  }

  function signOut(request: IncomingMessage, response: ServerResponse): void {
    if (isOwnForm(request)) redirect(response, '/', { 'set-cookie': sessions.end(request.headers.cookie) });
    else sendPage(response, 403, formatSignInPage(null));
  }

  async function convert(request: IncomingMessage, response: ServerResponse, run: (body: string) => Promise<string>): Promise<void> {
    const { origin, 'content-type': contentType = '' } = request.headers;
    response.setHeader('vary', 'origin');
    if (origin !== undefined) {
      if (!uiOrigins.includes(origin))
        return sendError(response, 403, 'this origin is not allowed; pass it to gateway codec-server with --ui-origin');
      response.setHeader('access-control-allow-origin', origin);
      response.setHeader('access-control-allow-credentials', 'true');
    }
    if (request.method === 'OPTIONS') return sendPreflight(response);
    const access = checkAccess(request);
    if (access === 'limited') return sendError(response, 429, 'too many invalid tokens; try again in a minute', retryAfter);
    if (access === 'invalid') return sendSignInNeeded(request, response);
    if (!/^application\/json\b/i.test(contentType)) return sendError(response, 415, 'content type must be application/json');
    try {
      sendJson(response, 200, await run(await readBody(request, maxPayloadsBytes)));
    } catch (error) {
      if (!(error instanceof BadPayloadsError)) throw error;
      sendError(response, 400, error.message);
    }
  }

  /**
   * Checks the session of requests with an `Origin` header, which browsers add to every POST. The Temporal CLI doesn't
   * send this header, so we check its token instead.
   */
  function checkAccess({ headers, socket }: IncomingMessage): 'valid' | 'invalid' | 'limited' {
    if (headers.origin !== undefined) return sessions.endOf(headers.cookie) === null ? 'invalid' : 'valid';
    const token = /^bearer\s+(\S+)\s*$/i.exec(headers.authorization ?? '')?.[1];
    return token === undefined ? 'invalid' : checkToken(token, socket.remoteAddress ?? '');
  }

  function sendSignInNeeded({ headers }: IncomingMessage, response: ServerResponse): void {
    const signInUrl = `${ownOriginOf(headers.host)}/`;
    const message = `sign in at ${signInUrl} and include cross-origin credentials in the Temporal UI; with the Temporal CLI add --codec-auth "Bearer <ADMIN_TOKEN>"`;
    sendJson(response, 401, JSON.stringify({ error: { message, sign_in_url: signInUrl } }));
  }

  function isOwnForm({ headers }: IncomingMessage): boolean {
    return headers.origin !== undefined && ownOrigins.includes(headers.origin);
  }

  /** Finds which of our own origins a request was sent to, based on its `Host` header. Falls back to the first one. */
  function ownOriginOf(host: string | undefined): string {
    return ownOrigins.find((origin) => new URL(origin).host === host) ?? ownOrigins[0] ?? '';
  }
}

/**
 * Returns the origins of this machine that have the same host names as the UIs. Browsers only send the cookie if the
 * host names match.
 */
function loopbackOrigins(uiOrigins: readonly string[], port: number): string[] {
  const hosts = new Set(uiOrigins.map((origin) => new URL(origin).hostname));
  return [...hosts].map((host) => new URL(`http://${host}:${port}`).origin);
}

function sendPreflight(response: ServerResponse): void {
  response.writeHead(204, {
    'access-control-allow-methods': 'POST',
    // Some Temporal UIs pass on their own token in the last two headers. We have to allow these, but we ignore their
    // values.
    'access-control-allow-headers': 'content-type, x-namespace, authorization, authorization-extras',
    'access-control-max-age': '600',
  });
  response.end();
}

function redirect(response: ServerResponse, location: string, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(303, { ...pageHeaders, ...headers, location });
  response.end();
}

function sendPage(response: ServerResponse, status: number, html: string, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(status, { ...pageHeaders, ...headers });
  response.end(html);
}

function sendError(response: ServerResponse, status: number, message: string, headers: Readonly<Record<string, string>> = {}): void {
  sendJson(response, status, JSON.stringify({ error: { message } }), headers);
}

function sendJson(response: ServerResponse, status: number, body: string, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...headers,
  });
  response.end(body);
}
