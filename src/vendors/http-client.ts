/**
 * The HTTP client for all requests to vendors. Every request ends either with a response or with a VendorError. We have
 * one or more undici pools for each origin, don't follow redirects, and limit all sizes and waiting times.
 */
import { Readable } from 'node:stream';
import { type buildConnector, type Dispatcher, errors, Pool } from 'undici';
import type { Egress } from '../core/egress.ts';
import { errorCode } from '../core/error-messages.ts';
import { VendorError } from '../core/errors.ts';
import { asObject, asString, isObject } from '../core/json/narrow.ts';
import { createTurnBatch, type TurnBatch } from '../core/turn-batch.ts';
import { describeConnectionError } from './connection-error.ts';
import { createConnector } from './connector.ts';
import { createDecodedBody, parseContentEncoding } from './decode-body.ts';
import { createResponseBody, type IncomingBody, type ResponseBody } from './response-body.ts';

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

export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: ResponseBody;
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
        partial.pool.dispatch(options, createExchange({ partial, upload, firstByteTimeoutMs, signal, turnBatch, resolve, reject: fail }));
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

interface ExchangeOptions {
  readonly partial: PartialPool;
  readonly upload: Buffer | readonly Buffer[] | Readable | null;
  readonly firstByteTimeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly turnBatch: TurnBatch;
  readonly resolve: (response: HttpResponse) => void;
  readonly reject: (error: VendorError) => void;
}

/**
 * Receives one response from undici. We could use undici's `request`, but its callbacks need three times as much CPU
 * (measured).
 */
function createExchange(options: ExchangeOptions): Dispatcher.DispatchHandler {
  const { partial, upload, firstByteTimeoutMs, signal, turnBatch } = options;
  let isRunning = true;
  /**
   * The functions that settle the caller's promise. We drop them when the response starts, because the promise would
   * keep the headers in memory until the body ends.
   */
  let waiting: Pick<ExchangeOptions, 'resolve' | 'reject'> | null = options;
  let connection: Dispatcher.DispatchController | null = null;
  let body: IncomingBody | null = null;
  let startedAt = 0;
  let firstByteTimer: NodeJS.Timeout | undefined;

  /**
   * Undici restarts its own timeout after every interim response, so without a limit a vendor could send them forever.
   */
  const limitInterimResponses = (): void => {
    const isUpload = upload instanceof Readable;
    if (firstByteTimer || (isUpload && !upload.readableEnded)) return;
    const elapsedMs = isUpload ? 0 : performance.now() - startedAt;
    firstByteTimer = setTimeout(() => connection?.abort(firstByteTimeout()), firstByteTimeoutMs - elapsedMs);
  };
  const end = (): void => {
    signal?.removeEventListener('abort', abort);
    if (isRunning) partial.requests -= 1;
    isRunning = false;
  };
  const fail = (cause: unknown): void => {
    clearTimeout(firstByteTimer);
    end();
    if (upload instanceof Readable) {
      if (!upload.readableEnded && isObject(cause) && reusedErrors.has(cause)) closingErrors.add(cause);
      upload.on('error', ignoreLateError).destroy();
    }
    if (body) body.fail(toVendorError(cause, 'body'));
    else waiting?.reject(toVendorError(cause, connection ? 'start' : 'unsent'));
  };
  const abort = (): void => {
    if (connection) connection.abort(signal?.reason);
    else fail(signal?.reason);
  };
  signal?.addEventListener('abort', abort);

  return {
    onRequestStart(started) {
      connection = started;
      startedAt = performance.now();
      if (signal?.aborted) started.abort(signal.reason);
    },
    onResponseStart(started, status, headers) {
      // Interim responses such as 103 come before the real one.
      if (status < 200) return limitInterimResponses();
      clearTimeout(firstByteTimer);
      // The parsed headers are all that's needed. The raw ones would take 2 kB of memory until the response ends
      // (measured).
      started.rawHeaders = null;
      const encoding = parseContentEncoding(headers['content-encoding']);
      body = encoding === null ? createResponseBody(started) : createDecodedBody(started, encoding);
      // The caller gets the decoded body, so the vendor's length and encoding no longer apply.
      const decoded = encoding === null ? headers : { ...headers, 'content-length': undefined, 'content-encoding': undefined };
      if (waiting === null) return;
      const { resolve } = waiting;
      const response = { status, headers: decoded, body };
      waiting = null;
      turnBatch.run(() => resolve(response));
    },
    onResponseData(_started, chunk) {
      body?.add(chunk);
    },
    onResponseEnd() {
      end();
      body?.end();
    },
    onResponseError(_started, cause) {
      fail(cause);
    },
  };
}

function firstByteTimeout(cause?: unknown): VendorError {
  return new VendorError('timeout', 'timed out waiting for the response', { cause });
}

function ignoreLateError(): void {
  // The response is complete or nobody wants it any more, so we can ignore connection errors.
}

/**
 * Converts a connection error to a VendorError. In the phase `unsent`, there's no connection yet. `start` lasts until
 * the response headers arrive, and `body` is everything after that.
 */
export function toVendorError(cause: unknown, phase: 'unsent' | 'start' | 'body'): VendorError {
  const isUnsent = phase === 'unsent';
  if (cause instanceof VendorError)
    return isUnsent ? new VendorError(cause.kind, cause.message, { isUnsent, cause, detail: cause.detail }) : cause;
  if (cause instanceof errors.RequestAbortedError || (isObject(cause) && cause.name === 'AbortError'))
    return new VendorError('aborted', 'the request was aborted', { isUnsent, cause });
  if (cause instanceof errors.HeadersTimeoutError) return firstByteTimeout(cause);
  if (cause instanceof errors.BodyTimeoutError) return new VendorError('broken', 'the response stalled', { cause });
  if (phase === 'body') return new VendorError('broken', 'the response ended early', { cause });
  const code = asString(errorCode(cause));
  const closedWhileSending = isObject(cause) && closingErrors.has(cause);
  // A connection that closes without a single byte of a response means that the vendor is unreachable. The message
  // contains the system's code, e.g. ECONNREFUSED, but never an address or the original message.
  const detail = describeConnectionError(code);
  return new VendorError('connect', code === null ? detail : `${detail} (${code})`, {
    isUnsent: isUnsent || closedWhileSending,
    closedWhileSending,
    cause,
    detail,
  });
}

/** Errors that happened on a connection that had already served another request. */
const reusedErrors = new WeakSet<object>();
/** Those of the `reusedErrors` that happened before we had sent the whole request. */
const closingErrors = new WeakSet<object>();

/**
 * Records whether a connection was closed before it had sent the whole request. In that case the vendor can't have
 * processed it, so it's safe to send it again. We only know this if a write has failed, if the operating system hasn't
 * accepted the last bytes, or if parts of a large body are still waiting for their turn (`createExchange`). After that,
 * a reset proves nothing, because the vendor may have read the request first.
 */
function watchClosing(connect: buildConnector.connector): buildConnector.connector {
  return (options, callback) => {
    connect(options, (...[failure, socket]) => {
      if (failure !== null) return callback(failure, null);
      let isPartlyUnsent = false;
      socket.on('end', () => {
        isPartlyUnsent = socket.writableLength > 0;
      });
      socket.on('error', (error) => {
        const isCutOff = isPartlyUnsent || socket.writableLength > 0 || asObject(error).syscall === 'write';
        if (socket.bytesRead === 0) return;
        reusedErrors.add(error);
        if (isCutOff) closingErrors.add(error);
      });
      callback(null, socket);
    });
  };
}
