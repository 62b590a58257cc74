/** Registers every URL of the gateway except those under `/provision`, one line each, and creates the HTTP server. */
import { createServer, IncomingMessage, type RequestListener, type Server, ServerResponse } from 'node:http';
import type { Express, NextFunction, Request, RequestHandler, Response, Router } from 'express';
import express from 'express';
import { gatewayError } from '../core/errors.ts';
import { requireToken } from './admin.ts';
import { allowOrigins } from './cors.ts';
import { createErrorHandler, type ErrorReports, invalidUrl, sendError, sendJson } from './error-handler.ts';
import { allowHalfOpen, continueInOrder } from './half-close.ts';
import { describeApi, publicAddresses } from './openapi.ts';
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
}

export interface ServerDeps extends HealthServerDeps {
  /** Null when no traces are exported. */
  readonly traceSampling: RequestSampling | null;
  readonly text: TextRouteDeps;
  readonly countTokens: CountTokensRouteDeps;
  readonly media: MediaRouteDeps;
  readonly video: VideoRouteDeps;
  readonly status: StatusRouteDeps;
  readonly models: ModelsRouteDeps;
  readonly memory: MemoryRouteDeps;
  readonly provision: Router;
  /** Origins of web pages that may call the routes of virtual keys. */
  readonly corsOrigins: () => readonly string[];
  /** Loads `/console` and `/my-key`. Called with their first request: they take 12 MB (measured), which most processes of a deployment need not pay. */
  readonly console: () => Promise<RequestHandler>;
  readonly mcp: McpRoutes;
}

/** Express handlers of MCP, which is above `http`. */
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
    // Generated on first use: most processes never need it.
    description ??= describeApi();
    sendJson(response, 200, description);
  });

  app.all(/^\/(?:console|my-key)(?:[/.]|$)/, whenRequested(deps.console));

  return serve(app, deps, (listener) => {
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

/** Server of a worker process: health and metrics only. */
export function createHealthServer(deps: HealthServerDeps): Server {
  const app = createExpress();
  return serve(app, deps, (listener) => listener);
}

function createExpress(): Express {
  return express().disable('x-powered-by').disable('etag');
}

/**
 * Adds the routes that every process serves: health, metrics and an error response for unknown paths. `wrap` adds
 * handlers that run before the routes.
 */
function serve(app: Express, deps: HealthServerDeps, wrap: (listener: RequestListener) => RequestListener): Server {
  // Express calls `next` only if it can't parse the request target, e.g. `http://[`. Without our own `next` it would
  // send an HTML page.
  const route = app as (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void;
  const handle: RequestListener = (request, response) =>
    route(request, response, (error = invalidUrl()) => sendError(response, error, 'chat', deps));
  const { healthz, readyz } = createHealthRoutes({ ...deps.health, logger: deps.logger });
  app.get('/healthz', healthz);
  app.get('/readyz', readyz);
  app.get('/metrics', requireToken(deps.adminTokens), createMetricsRoute(deps.readMetrics));
  app.use((request, response) => {
    // A base address that ends in a slash, and a path that starts with one: `/v1//chat/completions`.
    const url = request.url.replace(/^\/+v1\/+/, '/v1/');
    if (url === request.url)
      throw gatewayError('not_found', { message: describeUnknownPath(request.method, request.path, publicAddresses) });
    request.url = url;
    handle(request, response);
  });
  app.use(createErrorHandler(deps));
  const server = createServer(prototypedMessageClasses(app), handleTogether(wrap(handle)));
  allowHalfOpen(server);
  continueInOrder(server);
  // Longer than the idle timeout of common load balancers (60 s): a request sent while we close an idle connection would fail.
  server.keepAliveTimeout = 65_000;
  server.headersTimeout = 66_000;
  // An import of memory takes longer than Node's five minutes, which `limitDuration` keeps for other bodies.
  server.requestTimeout = 3_600_000;
  return server;
}

/**
 * Handles the requests of one turn of the event loop together, when all of them have been read. A chat takes 8 % less CPU time than when reading
 * and handling alternate (measured with 16 connections), probably because each displaces the code of the other from the processor's caches.
 */
function handleTogether(listener: RequestListener): RequestListener {
  let waiting: ServerResponse[] = [];
  const handleWaiting = (): void => {
    const responses = waiting;
    waiting = [];
    for (const response of responses) listener(response.req, response);
  };
  return (_request, response) => {
    if (waiting.push(response) === 1) setImmediate(handleWaiting);
  };
}

/** Express routers respond to OPTIONS with their methods, which unauthenticated callers must not learn. */
function rejectOptionsRequests(request: Request, _response: Response, next: NextFunction): void {
  if (request.method === 'OPTIONS') throw gatewayError('not_found');
  next();
}

/**
 * Express sets the prototype of each request and response, which costs more than the rest of its work (70 µs of CPU per call, measured). It
 * leaves objects alone that are created with that prototype.
 */
function prototypedMessageClasses(app: Express): { IncomingMessage: typeof IncomingMessage; ServerResponse: typeof ServerResponse } {
  class FastRequest extends IncomingMessage {}
  class FastResponse<Request extends IncomingMessage> extends ServerResponse<Request> {}
  Object.setPrototypeOf(FastRequest.prototype, app.request);
  Object.setPrototypeOf(FastResponse.prototype, app.response);
  Object.assign(app, { request: FastRequest.prototype, response: FastResponse.prototype });
  return { IncomingMessage: FastRequest, ServerResponse: FastResponse };
}
