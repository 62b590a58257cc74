/**
 * The demo vendor is a model vendor that runs locally and doesn't need an account. `npm start` uses it if there's no
 * key for any other vendor. It echoes what it receives, accepts any key, and always gives the same response to the same
 * request. It doesn't import any other code of the gateway. The tests have a scripted vendor that extends it
 * (test/support/scripted-vendor).
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorResponse, type Family, gemini, openai, unknownPathResponse } from './errors.ts';
import { type JsonObject, parseObject } from './json.ts';
import { breakAfter, failureOf } from './model-terms.ts';
import { readBody } from './request-body.ts';
import type { DemoRequest, DemoResponse } from './response.ts';
import { createRoutes, type FindRoute, type Route } from './routes.ts';
import { parseForm } from './transcriptions.ts';
import { writeResponse } from './write-response.ts';

export interface DemoVendor {
  /** The URL without a path. Append `/v1` to get the base URL for chat, or `/v1beta` for video. */
  readonly url: string;
  /** Closes all connections. It's fine to call this twice, because the second call waits for the first one. */
  close(): Promise<void>;
}

export interface DemoVendorOptions {
  readonly host?: string;
  readonly port?: number;
  /** How long a stream waits between two deltas. At about 15, you can watch the text appear. */
  readonly paceMs?: number;
}

/** Starts the server. Rejects if the port is in use. */
export function createDemoVendor({ paceMs = 0, ...address }: DemoVendorOptions = {}): Promise<DemoVendor> {
  return startVendorServer({
    ...address,
    findRoute: createRoutes(),
    respond({ request, route, family, refusal }, response) {
      const outgoing = refusal ?? failureOf(request, family) ?? route?.handle(request) ?? unknownPathResponse(family, request);
      return writeResponse(response, outgoing, { headers: requestIdHeaders(family, request), paceMs, breakAfter: breakAfter(request) });
    },
  });
}

export interface ReceivedRequest {
  readonly request: DemoRequest;
  readonly route: Route | null;
  readonly family: Family;
  /** The error response if the request is invalid, and null if it's valid. */
  readonly refusal: DemoResponse | null;
}

const keepAliveMs = 75_000;
const backlog = 8_192;

/** Starts a server that parses requests and passes them to `respond`. */
export async function startVendorServer({
  host = '127.0.0.1',
  port = 0,
  findRoute,
  respond,
}: {
  readonly host?: string;
  readonly port?: number;
  readonly findRoute: FindRoute;
  readonly respond: (received: ReceivedRequest, response: ServerResponse) => Promise<void>;
}): Promise<DemoVendor> {
  let requestNumber = 0;
  let origin = '';
  let closed: Promise<void> | null = null;

  async function receive(message: IncomingMessage): Promise<ReceivedRequest> {
    const { method = '', url = '/', headers } = message;
    const body = await readBody(message);
    requestNumber += 1;
    const number = requestNumber;
    const queryStart = url.indexOf('?');
    const path = queryStart === -1 ? url : url.slice(0, queryStart);
    const match = findRoute(method, path);
    const route = match?.route ?? null;
    const json = body === null ? null : await parseBody(message, body);
    const pathParam = decodePathParam(match?.pathParam ?? '');
    const model = route?.readModel?.({ json: json ?? {}, pathParam, query: queryStart === -1 ? '' : url.slice(queryStart) }) ?? '';
    const family = route?.family ?? familyForPath(path);
    return {
      request: {
        requestNumber: number,
        method,
        url,
        path,
        headers,
        body: body ?? Buffer.alloc(0),
        json: json ?? {},
        model,
        pathParam,
        origin,
      },
      route,
      family,
      refusal:
        body === null
          ? errorResponse(family, { status: 413, message: 'Request exceeds the maximum size.' })
          : route && findRequestError(route, message, json !== null, model),
    };
  }

  const server = createServer({ keepAliveTimeout: keepAliveMs, requestTimeout: 0 }, async (request, response) => {
    try {
      await respond(await receive(request), response);
    } catch (error) {
      // It isn't an error if a client disconnects while it's still sending. Anything else is a bug, and we can't use
      // the connection anymore.
      if (request.complete) process.emitWarning(`demo vendor: ${String(error)}`);
      response.destroy();
    }
  });
  await once(server.listen({ host, port, backlog }), 'listening');
  origin = toOrigin(server.address());
  return {
    url: origin,
    close() {
      closed ??= new Promise((resolve, reject) => {
        server.close((error) => (error === undefined ? resolve() : reject(error)));
        server.closeAllConnections();
      });
      return closed;
    },
  };
}

export function requestIdHeaders({ requestIdHeader }: Family, { requestNumber }: DemoRequest): Record<string, string> {
  return { [requestIdHeader]: `req_demo_${requestNumber}` };
}

function findRequestError(
  { family, needsKey, readModel }: Route,
  { headers }: IncomingMessage,
  isJson: boolean,
  model: string,
): DemoResponse | null {
  if (needsKey && !family.keyHeaders.some((name) => headers[name])) {
    const message = `You did not provide an API key. The demo vendor accepts any key in the header ${family.keyHeaders[0]}.`;
    return errorResponse(family, { status: 401, message });
  }
  if (!isJson) return errorResponse(family, { status: 400, message: 'We could not parse the JSON body of your request.' });
  return readModel !== null && model === '' ? errorResponse(family, { status: 400, message: family.missingModel }) : null;
}

/** Parses a JSON or multipart body. Returns null if it's invalid. */
function parseBody({ method, headers }: IncomingMessage, body: Buffer): JsonObject | null | Promise<JsonObject | null> {
  if (body.length === 0 && method === 'GET') return {};
  const { 'content-type': type = '' } = headers;
  return type.startsWith('multipart/') ? parseForm(type, body) : parseObject(body);
}

function familyForPath(path: string): Family {
  return path.startsWith('/v1beta/') ? gemini : openai;
}

function decodePathParam(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // The path contains a percent sign that doesn't start a valid escape, so return it undecoded.
    return text;
  }
}

function toOrigin(address: AddressInfo | string | null): string {
  if (address === null || typeof address === 'string') throw new Error('The demo vendor is not listening on a port.');
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}
