/**
 * The demo vendor: a local model vendor that needs no account. `npm start` uses it when no vendor key is set; benchmarks and tests script it
 * by model name (see scripts.ts). It imports nothing from the gateway, returns equal responses to equal requests, requires a key of any
 * value, and uses bounded memory.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorResponse, type Family, hasKey, missingKeyResponse } from './errors.ts';
import { failureResponse, unknownPathResponse } from './failures.ts';
import { asString, type JsonObject, parseObject } from './json.ts';
import { createRecorder, type RecordedRequest } from './recorder.ts';
import { readBody } from './request-body.ts';
import type { IncomingRequest, OutgoingResponse } from './response.ts';
import { createRoutes, type RouteMatch } from './routes.ts';
import { parseScript } from './scripts.ts';
import { parseForm } from './transcriptions.ts';
import { createVideos } from './videos.ts';
import { waitFor, waitMs } from './wait.ts';
import { writeResponse } from './write-response.ts';

export interface DemoVendor {
  /** Without a path. Base URLs are `${url}/v1` (chat, messages) and `${url}/v1beta` (video). */
  readonly url: string;
  /** The newest 1,000 requests, oldest first. */
  requests(): readonly RecordedRequest[];
  /** Responds to the requests that `held` in a model's name keeps waiting; returns their number. */
  release(): number;
  /** Clears the recorded requests, the used `once` faults and the videos. */
  clear(): void;
  /** Closes every connection; a second call waits for the first. */
  close(): Promise<void>;
}

export interface DemoVendorOptions {
  readonly host?: string;
  readonly port?: number;
  /** Time between two deltas of a stream; about 15 makes streaming visible to a person. */
  readonly paceMs?: number;
  /** Called with each request when its body is complete, before the response. */
  readonly observe?: (request: RecordedRequest) => void;
  /** Milliseconds since 1970, for retry hints that are dates. */
  readonly now?: () => number;
}

const keepAliveMs = 75_000;
const backlog = 8_192;
const maxOnceModels = 1_000;

/** Starts the server; rejects when the port is in use. */
export async function createDemoVendor({
  host = '127.0.0.1',
  port = 0,
  paceMs = 0,
  observe,
  // The demo vendor imports nothing from the gateway, including the clock of core/time.ts.
  now = () => performance.timeOrigin + performance.now(),
}: DemoVendorOptions = {}): Promise<DemoVendor> {
  const recorder = createRecorder();
  const videos = createVideos();
  const findRoute = createRoutes(videos);
  const modelsFailedOnce = new Set<string>();
  const held = new Set<() => void>();
  let origin = '';
  let closed: Promise<void> | null = null;

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '/', headers } = request;
    const body = await readBody(request);
    const recorded = recorder.record({ method, path: url, headers, body: body ?? Buffer.alloc(0) });
    observe?.(recorded);
    const queryStart = url.indexOf('?');
    const path = queryStart === -1 ? url : url.slice(0, queryStart);
    const routeMatch = findRoute(method, path);
    const family = routeMatch?.route.family ?? familyForPath(path);
    const json = body === null ? null : await parseBody(request, body);
    const pathParam = decodePathParam(routeMatch?.pathParam ?? '');
    const script = parseScript(
      routeMatch === null ? '' : modelName(routeMatch, { json, pathParam, queryText: queryStart === -1 ? '' : url.slice(queryStart) }),
    );
    const incoming: IncomingRequest = {
      requestNumber: recorded.requestNumber,
      method,
      path,
      headers,
      body: recorded.body,
      json: json ?? {},
      script,
      pathParam,
      origin,
    };

    const refusal =
      body === null
        ? errorResponse(family, { status: 413, message: 'Request exceeds the maximum size.' })
        : requestError(incoming, routeMatch, json !== null);
    if (refusal === null && script.slowMs > 0) await waitMs(response, script.slowMs);
    if (response.destroyed) return;
    const failure = refusal ?? scriptedFailure(incoming, family);
    if (failure === null && script.held) await untilReleased(response);
    if (response.destroyed) return;
    const outgoing = failure ?? routeMatch?.route.handle(incoming) ?? unknownPathResponse(family, incoming);
    const requestIdName = family === 'anthropic' ? 'request-id' : 'x-request-id';
    await writeResponse(response, { outgoing, script, paceMs, headers: { [requestIdName]: `req_demo_${recorded.requestNumber}` } });
  }

  /** Resolves when `release()` is called or the client disconnects. */
  function untilReleased(response: ServerResponse): Promise<void> {
    return waitFor(response, (done) => {
      held.add(done);
      return () => held.delete(done);
    });
  }

  function scriptedFailure(incoming: IncomingRequest, family: Family): OutgoingResponse | null {
    const { fault, once, model, cut } = incoming.script;
    if (fault === null) {
      const isPlain = incoming.json.stream !== true;
      return cut?.kind === 'error' && isPlain
        ? errorResponse(family, { status: 500, message: 'The server had an error while answering.' })
        : null;
    }
    if (once && modelsFailedOnce.has(model)) return null;
    if (once) {
      if (modelsFailedOnce.size >= maxOnceModels) modelsFailedOnce.clear();
      modelsFailedOnce.add(model);
    }
    return failureResponse(fault, family, incoming, now());
  }

  const server = createServer({ keepAliveTimeout: keepAliveMs, requestTimeout: 0 }, (request, response) => {
    serve(request, response).catch((error: unknown) => {
      // A client that disconnects while sending is not an error; anything else is a bug, and the connection is unusable.
      if (request.complete) process.emitWarning(`demo vendor: ${String(error)}`);
      response.destroy();
    });
  });
  await once(server.listen({ host, port, backlog }), 'listening');
  origin = toOrigin(server.address());

  return {
    url: origin,
    requests: recorder.requests,
    release() {
      const released = [...held];
      for (const release of released) release();
      return released.length;
    },
    clear() {
      recorder.clear();
      videos.clear();
      modelsFailedOnce.clear();
    },
    close() {
      closed ??= new Promise((resolve, reject) => {
        server.close((error) => (error === undefined ? resolve() : reject(error)));
        server.closeAllConnections();
      });
      return closed;
    },
  };
}

function modelName(
  { route }: RouteMatch,
  { json, pathParam, queryText }: { json: JsonObject | null; pathParam: string; queryText: string },
): string {
  switch (route.modelIn) {
    case 'body':
      return asString(json?.model);
    case 'path':
      return pathParam;
    case 'query':
      // URLSearchParams decodes a plus sign as a space.
      return (new URLSearchParams(queryText).get('model') ?? '').replaceAll(' ', '+');
    case 'nowhere':
      return '';
    default:
      return route.modelIn satisfies never;
  }
}

/** Returns the error response for an invalid request; null when the request is valid. */
function requestError(request: IncomingRequest, match: RouteMatch | null, isJson: boolean): OutgoingResponse | null {
  if (match === null) return null;
  const { family, needsKey, modelIn } = match.route;
  if (needsKey && !hasKey(family, request.headers)) return missingKeyResponse(family);
  if (!isJson) return errorResponse(family, { status: 400, message: 'We could not parse the JSON body of your request.' });
  if (modelIn !== 'nowhere' && request.script.model === '') {
    return errorResponse(family, {
      status: 400,
      message: family === 'anthropic' ? 'model: Field required' : 'you must provide a model parameter',
    });
  }
  const { invalidTerm } = request.script;
  return invalidTerm === null
    ? null
    : errorResponse(family, { status: 400, message: `The demo vendor cannot read '${invalidTerm}' in the model's name.` });
}

/** The members of a JSON or multipart body; null when it cannot be parsed. */
function parseBody({ method, headers }: IncomingMessage, body: Buffer): JsonObject | null | Promise<JsonObject | null> {
  if (body.length === 0 && method === 'GET') return {};
  const { 'content-type': type = '' } = headers;
  return type.startsWith('multipart/') ? parseForm(type, body) : parseObject(body);
}

function familyForPath(path: string): Family {
  return path.startsWith('/v1/messages') ? 'anthropic' : path.startsWith('/v1beta/') ? 'gemini' : 'openai';
}

function decodePathParam(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A stray percent sign: use the text as it is.
    return text;
  }
}

function toOrigin(address: AddressInfo | string | null): string {
  if (address === null || typeof address === 'string') throw new Error('The demo vendor listens on no port.');
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}
