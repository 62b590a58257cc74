/**
 * The HTTP client for all requests to vendors. Every request ends either with a response or with a VendorError. We have
 * one or more undici pools for each origin, don't follow redirects, and limit all sizes and waiting times.
 */
import { Readable } from 'node:stream';
import { Pool } from 'undici';
import type { Egress } from '../core/egress.ts';
import { VendorError } from '../core/errors.ts';
import { createTurnBatch, type TurnBatch } from '../core/turn-batch.ts';
import { createConnector } from './connector.ts';
import { createExchange } from './http-exchange.ts';
import type { HttpResponse } from './response-body.ts';
import { ignoreLateError, toVendorError, watchClosing } from './transport-errors.ts';

export interface Timeouts {
  readonly connectTimeoutMs: number;
  /** How long we wait for the response headers. */
  readonly firstByteTimeoutMs: number;
  /** How long we wait between two chunks of the response. */
  readonly idleTimeoutMs: number;
}

/**
 * The parts of a URL that a request needs. `URL` computes them again on each access, so if an address never changes, we
 * compute them once and keep them.
 */
export type Address = Pick<URL, 'origin' | 'pathname' | 'search'>;

export interface HttpRequest extends Timeouts {
  readonly url: Address;
  readonly method: 'POST' | 'GET';
  readonly headers: Readonly<Record<string, string>>;
  /** If the body consists of chunks, also set the `content-length` header. Otherwise, Node uses chunked encoding. */
  readonly body: Buffer | readonly Buffer[] | AsyncIterable<Buffer> | null;
  /** Null or missing for a direct connection that trusts the default certificate authorities. */
  readonly egress?: Egress | null | undefined;
  /** Aborts the request with a VendorError `aborted`. Without a signal, only the timeouts can end the request. */
  readonly signal?: AbortSignal | undefined;
}

export interface VendorHttpClient {
  send(request: HttpRequest): Promise<HttpResponse>;
  /** Stops immediately. Running requests fail with a VendorError `stopped`, and new ones with `connect`. */
  abort(): void;
  stats(): VendorConnections;
  /** Closes idle connections, and waits until running requests are done. */
  close(): Promise<void>;
}

export interface VendorConnections {
  readonly busy: number;
  readonly idle: number;
  readonly waitingRequests: number;
}

/** All responses that arrive in the same turn of the event loop are passed on together, using `turnBatch`. */
export function createVendorHttpClient(turnBatch: TurnBatch = createTurnBatch()): VendorHttpClient {
  /** The pools for each origin and key. */
  const pools = new Map<string, Map<PoolKey, PartialPool[]>>();
  /** Pools that don't get any new requests. They only finish the ones that are running. */
  const retired = new Set<Pool>();
  let abortedWith: VendorError | null = null;

  const poolFor = (
    origin: string,
    key: PoolKey,
    { connectTimeoutMs, egress = null }: Pick<HttpRequest, 'connectTimeoutMs' | 'egress'>,
  ): PartialPool => {
    const known = pools.get(origin)?.get(key) ?? [];
    const found = known.find(({ requests }) => requests < requestsPerPool);
    if (found) return found;
    const connect = watchClosing(createConnector(connectTimeoutMs, egress));
    const pool = new Pool(origin, { connect, keepAliveTimeout: 30_000, pipelining: 1 });
    const ofOrigin = pools.get(origin) ?? new Map<PoolKey, PartialPool[]>();
    const created = { pool, requests: 0 };
    pools.set(origin, ofOrigin.set(key, [...known, created]));
    return created;
  };
  /**
   * The vendor has probably closed all idle connections of this pool, so stop using it. The next request creates
   * another pool with a new connection.
   */
  const retire = (failed: PartialPool, origin: string, key: PoolKey): void => {
    const ofOrigin = pools.get(origin);
    const known = ofOrigin?.get(key) ?? [];
    if (!known.includes(failed)) return;
    ofOrigin?.delete(key);
    for (const { pool } of known) {
      retired.add(pool);
      pool
        .close()
        .catch(ignoreLateError)
        .finally(() => retired.delete(pool));
    }
  };
  const listPools = (): Pool[] => [
    ...[...pools.values()].flatMap((ofOrigin) => [...ofOrigin.values()].flat().map(({ pool }) => pool)),
    ...retired,
  ];

  return {
    send(request) {
      const { url, method, headers, connectTimeoutMs, firstByteTimeoutMs, idleTimeoutMs, egress, signal } = request;
      if (abortedWith) return Promise.reject(new VendorError('connect', abortedWith.message));
      if (signal?.aborted) return Promise.reject(toVendorError(signal.reason, 'unsent'));
      const key = egress ? `${egress.key} ${connectTimeoutMs}` : connectTimeoutMs;
      const partial = poolFor(url.origin, key, request);
      const isStreamed = request.body !== null && Symbol.asyncIterator in request.body;
      const upload = isStreamed ? Readable.from(request.body, { objectMode: false }) : request.body;
      const path = url.pathname + url.search;
      // Undici's documentation allows a list of buffers, but its types don't.
      const body = upload as Buffer | Readable | null;
      const options = { path, method, headers, body, headersTimeout: firstByteTimeoutMs, bodyTimeout: idleTimeoutMs };
      return new Promise((resolve, reject) => {
        const fail = (error: VendorError): void => {
          if (error.closedWhileSending) retire(partial, url.origin, key);
          reject(error);
        };
        partial.requests += 1;
        partial.pool.dispatch(
          options,
          createExchange({ upload, firstByteTimeoutMs, signal, turnBatch, resolve, reject: fail, onEnd: releaseOf(partial) }),
        );
      });
    },
    abort() {
      abortedWith ??= new VendorError('stopped', 'the gateway is stopping');
      for (const pool of listPools()) pool.destroy(abortedWith, ignoreLateError);
    },
    stats() {
      const total = { busy: 0, idle: 0, waitingRequests: 0 };
      for (const { stats } of listPools()) {
        total.busy += stats.connected - stats.free;
        total.idle += stats.free;
        total.waitingRequests += stats.queued;
      }
      return total;
    },
    async close() {
      if (!abortedWith) await Promise.all(listPools().map((pool) => pool.close()));
    },
  };
}

/**
 * Requests with the same key can share connections. The key consists of the connect timeout and, if there is one, the
 * key of the egress.
 */
type PoolKey = number | string;

/**
 * A pool for up to `requestsPerPool` requests at a time. For every request, undici's pool goes through all of its
 * connections to find a free one. With thousands of open streams, that would take longer than everything else that a
 * call does. It's also a good size for HTTP/2, where a connection usually takes 100 requests.
 */
interface PartialPool {
  readonly pool: Pool;
  requests: number;
}

const requestsPerPool = 100;

/** If this closure were created in `send`, it would keep the request and the promise in memory until the body ends. */
function releaseOf(partial: PartialPool): () => void {
  return () => {
    partial.requests -= 1;
  };
}
