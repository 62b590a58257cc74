/**
 * Serves `GET /metrics` at `GATEWAY_METRICS_ADDRESS` without a token, because only the monitoring network should be
 * able to reach this address. In a cluster, the same process accepts the connections of all calls, so the limits
 * protect it from misbehaving clients.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { errorCode, errorSummary } from '../core/error-messages.ts';
import type { Logger } from '../observability/logger.ts';
import { contentType } from '../observability/metrics/families.ts';
import { StartError } from './start-error.ts';

interface MetricsServerOptions {
  readonly address: { readonly host: string; readonly port: number };
  readonly readMetrics: () => Promise<string>;
  readonly logger: Logger;
}

/**
 * Node only checks `headersTimeout` and `requestTimeout` once per `connectionsCheckingInterval`. They don't cover
 * clients that never read the response, so `silenceTimeoutMs` disconnects those.
 */
const limits = { headersTimeout: 5_000, requestTimeout: 5_000, connectionsCheckingInterval: 5_000 };
const silenceTimeoutMs = 30_000;
const maxConnections = 100;

/** Starts the server and returns a function that stops it. Throws StartError if the address can't be used. */
export async function startMetricsServer({
  address: { host, port },
  readMetrics,
  logger,
}: MetricsServerOptions): Promise<() => Promise<void>> {
  let reading: Promise<string> | null = null;
  const readOnce = (): Promise<string> => {
    reading ??= readMetrics().finally(() => {
      reading = null;
    });
    return reading;
  };
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const isFound = request.url?.split('?', 1)[0] === '/metrics' && (request.method === 'GET' || request.method === 'HEAD');
    const [status, type, text] = isFound ? ([200, contentType, await readOnce()] as const) : notFound;
    response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(text);
  };
  const server = createServer(limits, (request, response) => {
    respond(request, response).catch((err: unknown) => {
      logger.error({ err }, 'failed to read metrics');
      response.writeHead(500).end();
    });
  });
  server.maxConnections = maxConnections;
  server.setTimeout(silenceTimeoutMs);
  server.listen({ host, port });
  try {
    await once(server, 'listening');
  } catch (cause) {
    const reason = errorCode(cause) === 'EADDRINUSE' ? 'the address is already in use' : errorSummary(cause);
    throw new StartError(`GATEWAY_METRICS_ADDRESS: cannot listen on ${host}:${port}: ${reason}`, { cause });
  }
  const bound = server.address();
  const boundPort = typeof bound === 'object' && bound !== null ? bound.port : port;
  logger.info({ url: `http://${host.includes(':') ? `[${host}]` : host}:${boundPort}/metrics` }, 'serving metrics');
  return async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  };
}

const notFound = [404, 'text/plain; charset=utf-8', 'not found; this address serves /metrics\n'] as const;
