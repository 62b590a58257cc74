/**
 * The HTTP endpoint for MCP. It checks the host, the origin and the token, and passes the request on to the official
 * SDK, which supports both versions of the protocol.
 *
 * The order of the checks matters. A request for a foreign host doesn't learn anything, and one without a token only
 * learns where to sign in. We don't read the body until all checks are done. If we had to wait for the body, we check
 * the token again.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { type AuthInfo, bearerAuthChallengeResponse, createMcpHandler, OAuthError, verifyBearerToken } from '@modelcontextprotocol/server';
import { isNestedDeeper, maxNesting } from '../core/json/narrow.ts';
import { parseJsonOrThrow } from '../core/json/parse.ts';
import { repeatsKey } from '../core/json/repeats-key.ts';
import type { Clock } from '../core/time.ts';
import { withTimeout } from '../core/time-limit.ts';
import { type AuthorizeAgain, type KeyBodies, readBody, utf8 } from '../http/body.ts';
import type { BodyShares } from '../http/body-shares.ts';
import { mapDatabaseErrors } from '../http/database-errors.ts';
import { sendBytes, sendJson } from '../http/error-handler.ts';
import type { Logger } from '../observability/logger.ts';
import { scopes } from '../people/scopes.ts';
import type { Access, ProjectsOf } from './access.ts';
import { createRateLimit } from './rate-limit.ts';
import { describeResource, findForeignHost, type Resource, type ResourceSettings } from './resource.ts';
import { createMcpServer } from './server.ts';
import type { AnyTool } from './tools/tool.ts';
import { type TokenDeps, verifyToken } from './verify-token.ts';

export interface McpEndpointDeps {
  /** Called for each request, because a reload can change the settings. */
  readonly resource: () => ResourceSettings;
  readonly tokens: TokenDeps;
  readonly projectsOf: ProjectsOf;
  /** Clients list the MCP tools in this order. */
  readonly tools: readonly AnyTool[];
  readonly bodyShares: Pick<BodyShares, 'ofAccount'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

export type McpEndpoint = ReturnType<typeof createMcpEndpoint>;

const maxMessageBytes = 1024 * 1024;
const closeTimeoutMs = 5_000;
const jsonRpc = { parseError: -32_700, invalidRequest: -32_600, refused: -32_000 } as const;

export function createMcpEndpoint({ resource, tokens, projectsOf, tools, bodyShares, clock, logger }: McpEndpointDeps) {
  const waitSeconds = createRateLimit();
  const running = new Set<Promise<void>>();
  const handler = createMcpHandler(({ authInfo }) => createMcpServer(tools, { access: accessOf(authInfo), projectsOf, logger }), {
    // Clients may subscribe to changes, but we never notify them, because tools only change with a release.
    maxSubscriptions: 100,
    onerror: (err) => logger.debug({ err }, 'MCP request rejected'),
  });
  const handle = toNodeHandler(handler, { onerror: (err) => logger.error({ err }, 'MCP request failed') });

  /** Returns the token's access. Throws OAuthError if there's no valid token. */
  const authenticate = async ({ headers }: IncomingMessage, { url, issuer, metadataUrl }: Resource): Promise<AuthInfo> => {
    const verifyAccessToken = async (token: string): Promise<AuthInfo> => {
      const access = await verifyToken(tokens, token, issuer === null ? null : { issuer, audience: url });
      const { client, scopes: granted, expiresAt } = access;
      return { token, clientId: client, scopes: [...granted], expiresAt: Math.floor(expiresAt / 1_000), extra: { access } };
    };
    const options = { verifier: { verifyAccessToken }, ...advertise(metadataUrl) };
    const found = await mapDatabaseErrors(() => verifyBearerToken(headers.authorization, options).catch(returnOAuthError));
    if (found instanceof OAuthError) throw found;
    return found;
  };

  /** Counts requests from the token's person. If there are too many, sends a 429 and returns true. */
  const isTooFrequent = (response: ServerResponse, auth: AuthInfo, count: number): boolean => {
    const wait = waitSeconds(accessOf(auth).person.id, clock.now(), count);
    if (wait === null) return false;
    response.setHeader('retry-after', String(wait));
    sendRpcError(response, 429, jsonRpc.refused, 'too many requests');
    return true;
  };

  /** Reads the body of a request whose token is valid, and runs the SDK. */
  const respond = async (
    request: IncomingMessage,
    response: ServerResponse,
    { auth, memory, authorizeAgain }: { auth: AuthInfo; memory: KeyBodies; authorizeAgain: AuthorizeAgain },
  ): Promise<void> => {
    let body: unknown;
    if (request.method === 'POST') {
      const bytes = await readBody(request, maxMessageBytes, memory, authorizeAgain);
      let text: string;
      try {
        text = utf8.decode(bytes);
        body = parseJsonOrThrow(text);
      } catch {
        return sendRpcError(response, 400, jsonRpc.parseError, 'Parse error: the request body is not valid JSON');
      }
      if (isNestedDeeper(body))
        return sendRpcError(response, 400, jsonRpc.invalidRequest, `Invalid Request: nested in more than ${maxNesting} levels`);
      if (repeatsKey(text, body))
        return sendRpcError(response, 400, jsonRpc.invalidRequest, 'Invalid Request: the same key appears twice in an object');
      if (Array.isArray(body) && body.length > 1 && isTooFrequent(response, auth, body.length - 1)) return;
    }
    const handled = handle(Object.assign(request, { auth, method: request.method ?? 'GET', url: request.url ?? '/mcp' }), response, body);
    // `close` doesn't wait for subscriptions, because they only end when the client disconnects or the process exits.
    if (!isListening(body)) running.add(handled);
    await handled.finally(() => running.delete(handled));
  };

  return {
    async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
      const foreign = findForeignHost(resource(), request.headers);
      if (foreign !== null) return sendRpcError(response, 403, jsonRpc.refused, foreign);
      const described = describeResource(resource(), request.headers);
      const authorizeAgain = (): Promise<AuthInfo> => authenticate(request, described);
      try {
        const auth = await authenticate(request, described);
        if (isTooFrequent(response, auth, 1)) return;
        const memory = bodyShares.ofAccount(accessOf(auth).person.id);
        await respond(request, response, { auth, memory, authorizeAgain }).finally(memory.releaseAll);
      } catch (error) {
        if (!(error instanceof OAuthError)) throw error;
        await sendChallenge(response, error, described);
      }
    },
    /** Sends the metadata of the protected resource (RFC 9728). Clients don't need a token for it. */
    async sendMetadata(request: IncomingMessage, response: ServerResponse): Promise<void> {
      if (findForeignHost(resource(), { host: request.headers.host }) !== null)
        return sendRpcError(response, 403, jsonRpc.refused, 'Invalid Host');
      response.setHeader('access-control-allow-origin', '*');
      if (request.method === 'OPTIONS') {
        response.writeHead(204, { 'access-control-allow-methods': 'GET', 'access-control-allow-headers': '*' }).end();
        return;
      }
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.writeHead(405, { allow: 'GET, HEAD, OPTIONS' }).end();
        return;
      }
      sendJson(response, 200, describeResource(resource(), request.headers).metadata);
    },
    /** Waits for running tool calls, and then ends all open streams. Later requests fail. */
    async close(): Promise<void> {
      await withTimeout(Promise.allSettled(running), closeTimeoutMs, () => []);
      await handler.close();
    },
  };
}

/** Sends a 401 that tells the client where to get a token. */
async function sendChallenge(response: ServerResponse, error: OAuthError, { metadataUrl }: Resource): Promise<void> {
  // Ask for all scopes at once, so that people don't have to sign in again later.
  const challenge = bearerAuthChallengeResponse(error, { requiredScopes: [...scopes], ...advertise(metadataUrl) });
  response.setHeader('www-authenticate', challenge.headers.get('www-authenticate') ?? 'Bearer');
  sendJson(response, challenge.status, await challenge.json());
}

function returnOAuthError(error: unknown): OAuthError {
  if (error instanceof OAuthError) return error;
  throw error;
}

function advertise(resourceMetadataUrl: string | undefined): { readonly resourceMetadataUrl?: string } {
  return resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl };
}

function accessOf(auth: AuthInfo | undefined): Access {
  const access = auth?.extra?.access;
  if (access === undefined) throw new Error('the request was not authenticated');
  return access as Access;
}

function isListening(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'method' in body && body.method === 'subscriptions/listen';
}

function sendRpcError(response: ServerResponse, status: number, code: number, message: string): void {
  sendBytes(response, status, 'application/json', Buffer.from(JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id: null })));
}
