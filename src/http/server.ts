/** Registers all URLs of the gateway except those under `/provision`, and creates the HTTP server. */
import { createServer, IncomingMessage, type RequestListener, type Server, ServerResponse } from 'node:http';
import type { Express, NextFunction, Request, RequestHandler, Response, Router } from 'express';
import express from 'express';
import { gatewayError } from '../core/errors.ts';
import type { TurnBatch } from '../core/turn-batch.ts';
import { requireToken } from './admin.ts';
import { allowOrigins } from './cors.ts';
import { createErrorHandler, type ErrorReports, errorStyleOf, invalidUrl, rawHash, sendError, sendJson } from './error-handler.ts';
import { startFairly } from './fair-starts.ts';
import { allowHalfOpen, continueInOrder } from './half-close.ts';
import { answerMalformedRequests } from './malformed-requests.ts';
import { describeApi, publicAddresses } from './openapi.ts';
import { limitPipelining } from './pipelining.ts';
import type { RequestOwner } from './request-owner.ts';
import { createCompletionsRoute } from './routes/completions.ts';
import { type CountTokensRouteDeps, createCountTokensRoute } from './routes/count-tokens.ts';
import { createHealthRoutes, type HealthDeps } from './routes/health.ts';
import { createMediaRoutes, type MediaRouteDeps } from './routes/media.ts';
import { createMemoryRoutes, type MemoryRouteDeps } from './routes/memory.ts';
import { createMetricsRoute, type ReadMetrics } from './routes/metrics.ts';
import { createModelsRoutes, type ModelsRouteDeps } from './routes/models.ts';
import { sendRoot } from './routes/root.ts';
import { createStatusRoutes, type StatusRouteDeps } from './routes/status.ts';
import { createTextRoute, type TextRouteDeps } from './routes/text.ts';
import { createVideoRoutes, type VideoRouteDeps } from './routes/video.ts';
import { type RequestSampling, traceRequests } from './trace-requests.ts';
import { describeUnknownPath } from './unknown-path.ts';

export interface HealthServerDeps extends ErrorReports {
  readonly health: HealthDeps;
  readonly readMetrics: ReadMetrics;
  readonly adminTokens: () => readonly string[];
  /** If this is set, requests start in the same batch as other work of this turn of the event loop. */
  readonly turnBatch?: TurnBatch;
}

export interface ServerDeps extends HealthServerDeps {
  /** Null if traces aren't exported. */
  readonly traceSampling: RequestSampling | null;
  readonly ownerOf: RequestOwner;
  readonly text: TextRouteDeps;
  readonly countTokens: CountTokensRouteDeps;
  readonly media: MediaRouteDeps;
  readonly video: VideoRouteDeps;
  readonly status: StatusRouteDeps;
  readonly models: ModelsRouteDeps;
  readonly memory: MemoryRouteDeps;
  readonly provision: Router;
  /** The origins of web pages that may call the routes for virtual keys. */
  readonly corsOrigins: () => readonly string[];
  /**
   * Loads `/console` and `/my-key` on the first request, because they take 12 MB (measured) and most processes never
   * serve them.
   */
  readonly console: () => Promise<RequestHandler>;
  readonly mcp: McpRoutes;
}

/** Handlers for MCP. We can't import them, because `mcp` imports `http`. */
interface McpRoutes {
  readonly serve: RequestHandler;
  readonly sendMetadata: RequestHandler;
}

export function createHttpServer(deps: ServerDeps): Server {
  const app = createExpress();
  const { peek, usage } = createStatusRoutes(deps.status);
  const memory = createMemoryRoutes(deps.memory);
  const media = createMediaRoutes(deps.media);
  const video = createVideoRoutes(deps.video);
  const models = createModelsRoutes(deps.models);

  app.post('/v1/chat/completions', createTextRoute('chat', deps.text));
  app.post('/v1/completions', createCompletionsRoute(deps.text));
  app.post('/v1/messages', createTextRoute('messages', deps.text));
  app.post('/v1/messages/count_tokens', createCountTokensRoute(deps.countTokens));
  app.post('/v1/embeddings', createTextRoute('embeddings', deps.text));
  app.post('/v1/moderations', createTextRoute('moderations', deps.text));
  app.post('/v1/rerank', createTextRoute('rerank', deps.text));
  app.post('/v1/responses', createTextRoute('responses', deps.text));
  app.post('/v1/images/generations', media.images);
  app.post('/v1/images/edits', media.imageEdits);
  app.post('/v1/audio/speech', media.speech);
  app.post('/v1/audio/transcriptions', media.transcriptions);
  app.post('/v1/audio/translations', media.translations);
  app.post('/v1/video/generations', video.generations);
  app.post('/v1/video/operations', video.operations);
  app.post('/v1/video/download', video.download);
  app.get('/v1/models', models.list);
  app.get('/v1/models/*id', models.get);
  app.post('/v1/memory/items', memory.writeItem);
  app.patch('/v1/memory/items/:id', memory.correctItem);
  app.delete('/v1/memory/items/:id', memory.removeItem);
  app.post('/v1/memory/items/:id/rating', memory.rateItem);
  app.post('/v1/memory/search', memory.search);
  app.post('/v1/memory/recall', memory.explainRecall);
  app.post('/v1/memory/wake-up', memory.wakeUp);
  app.post('/v1/memory/graph', memory.findFacts);
  app.get('/v1/memory/episodes/:id', memory.getEpisode);
  app.use('/v1/memory/subjects', memory.checkSubject);
  app.delete('/v1/memory/subjects', memory.eraseDotSubject);
  app.delete('/v1/memory/subjects/:subject', memory.eraseSubject);
  app.post('/v1/memory/episodes/:id/remember', memory.remember);
  app.get('/', sendRoot);
  app.get('/status/peek', peek);
  app.get('/usage/me', usage);
  app.use('/provision', rejectOptionsRequests, deps.provision);
  app.all('/mcp', deps.mcp.serve);
  app.all('/.well-known/oauth-protected-resource', deps.mcp.sendMetadata);
  app.all('/.well-known/oauth-protected-resource/mcp', deps.mcp.sendMetadata);
  let description: unknown;
  app.get('/openapi.json', (_request, response) => {
    // The description is only generated when it's first requested, because most processes never need it.
    description ??= describeApi();
    sendJson(response, 200, description);
  });

  app.all(/^\/(?:console|my-key)(?:[/.]|$)/, whenRequested(deps.console));

  return serve(app, deps, deps.ownerOf, (listener) => {
    const withOrigins = allowOrigins(deps.corsOrigins, listener);
    return deps.traceSampling === null ? withOrigins : traceRequests(withOrigins, deps.traceSampling);
  });
}

function whenRequested(load: () => Promise<RequestHandler>): RequestHandler {
  let loading: Promise<RequestHandler> | null = null;
  return async (request, response, next) => {
    loading ??= load();
    (await loading)(request, response, next);
  };
}

/** The server of a worker process, which only serves health and metrics. */
export function createHealthServer(deps: HealthServerDeps): Server {
  const app = createExpress();
  return serve(
    app,
    deps,
    () => '',
    (listener) => listener,
  );
}

/** Paths are case-sensitive, so that a proxy's rule for `/provision` also covers every path that we serve there. */
function createExpress(): Express {
  return express().disable('x-powered-by').disable('etag').enable('case sensitive routing');
}

/**
 * Adds the health and metrics routes and the 404 handler. `wrap` lets the caller add code that runs before all routes.
 */
function serve(app: Express, deps: HealthServerDeps, ownerOf: RequestOwner, wrap: (listener: RequestListener) => RequestListener): Server {
  // The only requests for which Express calls `next` are those whose target it can't parse, e.g. `http://[`. Without
  // our own `next`, it would send an HTML page.
  const route = app as (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void;
  const handle: RequestListener = (request, response) => {
    const { url = '' } = request;
    // Express would cut the URL off at a `#` that the client forgot to encode, so we'd act on something else, e.g. on
    // the subject `user` instead of `user#42`.
    if (url.includes('#')) return sendError(response, rawHash(), errorStyleOf(url), deps);
    route(request, response, (error = invalidUrl()) => sendError(response, error, 'chat', deps));
  };
  const { healthz, readyz } = createHealthRoutes({ ...deps.health, logger: deps.logger });
  app.get('/healthz', healthz);
  app.get('/readyz', readyz);
  app.get('/metrics', requireToken(deps.adminTokens), createMetricsRoute(deps.readMetrics));
  app.use((request, response) => {
    // Accept the double slash in `/v1//chat/completions`, which clients send if their base URL ends with a slash.
    const url = request.url.replace(/^\/+v1\/+/, '/v1/');
    if (url === request.url)
      throw gatewayError('not_found', { message: describeUnknownPath(request.method, request.path, publicAddresses) });
    request.url = url;
    handle(request, response);
  });
  app.use(createErrorHandler(deps));
  const { listener, connectionAccepted } = startFairly(wrap(handle), { ownerOf, nextTurn: deps.turnBatch?.run });
  const server = createServer(expressMessageClasses(app), listener).on('connection', connectionAccepted);
  allowHalfOpen(server);
  continueInOrder(server);
  limitPipelining(server);
  answerMalformedRequests(server, deps.countError);
  // Load balancers usually close idle connections after 60 s. We wait a bit longer than that, because a request fails
  // if it arrives while we're closing its connection.
  server.keepAliveTimeout = 65_000;
  server.headersTimeout = 66_000;
  // A memory import may take longer than Node's default of five minutes. `limitDuration` still applies five minutes to
  // other bodies.
  server.requestTimeout = 3_600_000;
  return server;
}

/** Express routers respond to OPTIONS with the route's methods, which unauthenticated callers shouldn't see. */
function rejectOptionsRequests(request: Request, _response: Response, next: NextFunction): void {
  if (request.method === 'OPTIONS') throw gatewayError('not_found');
  next();
}

/**
 * Express normally sets the prototype of each request and response, which costs more than everything else it does (70
 * µs of CPU per call, measured). It doesn't have to if we create messages of classes that already have Express's
 * prototypes.
 */
function expressMessageClasses(app: Express): { IncomingMessage: typeof IncomingMessage; ServerResponse: typeof ServerResponse } {
  class FastRequest extends IncomingMessage {}
  class FastResponse<Request extends IncomingMessage> extends ServerResponse<Request> {}
  Object.setPrototypeOf(FastRequest.prototype, app.request);
  Object.setPrototypeOf(FastResponse.prototype, app.response);
  Object.assign(app, { request: FastRequest.prototype, response: FastResponse.prototype });
  return { IncomingMessage: FastRequest, ServerResponse: FastResponse };
}
