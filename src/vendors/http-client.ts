/**
 * The HTTP client for vendors. Every request to a vendor goes through it, and ends with either a response or a
 * VendorError.
 *
 * There is one undici pool per origin. We don't follow redirects, all sizes are limited, and every wait has a timeout.
 */
import { Readable } from 'node:stream';
import { type buildConnector, type Dispatcher, errors, Pool } from 'undici';
import type { Egress } from '../core/egress.ts';
import { errorCode } from '../core/error-messages.ts';
import { VendorError } from '../core/errors.ts';
import { asObject, asString, isObject } from '../core/json/narrow.ts';
import { describeConnectionError } from './connection-error.ts';
import { createConnector } from './connector.ts';
import { createDecodedBody, parseContentEncoding } from './decode-body.ts';
import { createResponseBody, type IncomingBody, type ResponseBody } from './response-body.ts';

export interface Timeouts {
  readonly connectTimeoutMs: number;
  /** The time until the response headers arrive. */
  readonly firstByteTimeoutMs: number;
  /** The time between two chunks of the response. */
  readonly idleTimeoutMs: number;
}

/**
 * The parts of a URL that a request needs. A URL computes each part whenever we read it, so we cache the parts of fixed
 * addresses.
 */
export type Address = Pick<URL, 'origin' | 'pathname' | 'search'>;

export interface HttpRequest extends Timeouts {
  readonly url: Address;
  readonly method: 'POST' | 'GET';
  readonly headers: Readonly<Record<string, string>>;
  /**
   * If the body consists of chunks, set the `content-length` header, because otherwise it's sent with chunked encoding.
   */
  readonly body: Buffer | AsyncIterable<Buffer> | null;
  /** Null or absent to connect in the usual way. */
  readonly egress?: Egress | null | undefined;
  /** Aborts the request with VendorError `aborted`. Without a signal, only the timeouts end the request. */
  readonly signal?: AbortSignal | undefined;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: ResponseBody;
}

export interface VendorHttpClient {
  send(request: HttpRequest): Promise<HttpResponse>;
  /**
   * Ends running requests with VendorError `stopped` and rejects new ones with `connect`, so that waiting calls settle
   * immediately.
   */
  abort(): void;
  /** Counts the connections and waiting requests of all vendors. */
  stats(): VendorConnections;
  /** Closes idle connections and waits for running requests. */
  close(): Promise<void>;
}

export interface VendorConnections {
  readonly busy: number;
  readonly idle: number;
  readonly waitingRequests: number;
}

export function createVendorHttpClient(): VendorHttpClient {
  /** Maps origins and ways to connect to pools. */
  const pools = new Map<string, Map<PoolKey, Pool>>();
  /** Pools that get no new requests, but whose running requests haven't ended yet. */
  const retired = new Set<Pool>();
  let abortedWith: VendorError | null = null;

  const poolFor = (
    origin: string,
    key: PoolKey,
    { connectTimeoutMs, egress = null }: Pick<HttpRequest, 'connectTimeoutMs' | 'egress'>,
  ): Pool => {
    const known = pools.get(origin)?.get(key);
    if (known) return known;
    const connect = watchClosing(createConnector(connectTimeoutMs, egress));
    const pool = new Pool(origin, { connect, keepAliveTimeout: 30_000, pipelining: 1 });
    const ofOrigin = pools.get(origin) ?? new Map<PoolKey, Pool>();
    pools.set(origin, ofOrigin.set(key, pool));
    return pool;
  };
  /**
   * Closes the pool's idle connections so that the next request gets a new one, because the vendor has probably closed
   * them as well.
   */
  const retire = (pool: Pool, origin: string, key: PoolKey): void => {
    const ofOrigin = pools.get(origin);
    if (ofOrigin?.get(key) !== pool) return;
    ofOrigin.delete(key);
    retired.add(pool);
    pool
      .close()
      .catch(ignoreLateError)
      .finally(() => retired.delete(pool));
  };
  const listPools = (): Pool[] => [...[...pools.values()].flatMap((ofOrigin) => [...ofOrigin.values()]), ...retired];

  return {
    send(request) {
      const { url, method, headers, body, connectTimeoutMs, firstByteTimeoutMs, idleTimeoutMs, egress, signal } = request;
      if (abortedWith) return Promise.reject(new VendorError('connect', abortedWith.message));
      if (signal?.aborted) return Promise.reject(toVendorError(signal.reason, 'unsent'));
      const key = egress ? `${egress.key} ${connectTimeoutMs}` : connectTimeoutMs;
      const pool = poolFor(url.origin, key, request);
      const upload = body === null || Buffer.isBuffer(body) ? body : Readable.from(body, { objectMode: false });
      const path = url.pathname + url.search;
      const options = { path, method, headers, body: upload, headersTimeout: firstByteTimeoutMs, bodyTimeout: idleTimeoutMs };
      return new Promise((resolve, reject) => {
        const fail = (error: VendorError): void => {
          if (error.closedWhileSending) retire(pool, url.origin, key);
          reject(error);
        };
        pool.dispatch(options, createExchange({ upload, firstByteTimeoutMs, signal, resolve, reject: fail }));
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

/** The connect timeout, and the key of the egress if it isn't the usual one. */
type PoolKey = number | string;

interface ExchangeOptions {
  readonly upload: Buffer | Readable | null;
  readonly firstByteTimeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (response: HttpResponse) => void;
  readonly reject: (error: VendorError) => void;
}

/**
 * Receives a single response from undici. We don't use undici's `request`, because its callbacks cost three times as
 * much CPU (measured).
 */
function createExchange(options: ExchangeOptions): Dispatcher.DispatchHandler {
  const { upload, firstByteTimeoutMs, signal } = options;
  /**
   * We set this to null once there is a response, because the promise would otherwise keep the headers in memory until
   * the body ends.
   */
  let waiting: Pick<ExchangeOptions, 'resolve' | 'reject'> | null = options;
  let connection: Dispatcher.DispatchController | null = null;
  let body: IncomingBody | null = null;
  let startedAt = 0;
  let firstByteTimer: NodeJS.Timeout | undefined;

  /** Undici restarts its own timeout at every interim response, so we need another one. */
  const limitInterimResponses = (): void => {
    const isUpload = upload instanceof Readable;
    if (firstByteTimer || (isUpload && !upload.readableEnded)) return;
    const elapsedMs = isUpload ? 0 : performance.now() - startedAt;
    firstByteTimer = setTimeout(() => connection?.abort(firstByteTimeout()), firstByteTimeoutMs - elapsedMs);
  };
  const fail = (cause: unknown): void => {
    clearTimeout(firstByteTimer);
    signal?.removeEventListener('abort', abort);
    if (upload instanceof Readable) upload.on('error', ignoreLateError).destroy();
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
      // Interim responses, such as 103, come before the actual response.
      if (status < 200) return limitInterimResponses();
      clearTimeout(firstByteTimer);
      // We have already parsed the headers, and the raw ones would take 2 kB of memory until the response ends
      // (measured).
      started.rawHeaders = null;
      const encoding = parseContentEncoding(headers['content-encoding']);
      body = encoding === null ? createResponseBody(started) : createDecodedBody(started, encoding);
      // The length is that of the encoded body, so it no longer applies.
      const decoded = encoding === null ? headers : { ...headers, 'content-length': undefined, 'content-encoding': undefined };
      waiting?.resolve({ status, headers: decoded, body });
      waiting = null;
    },
    onResponseData(_started, chunk) {
      body?.add(chunk);
    },
    onResponseEnd() {
      signal?.removeEventListener('abort', abort);
      body?.end();
    },
    onResponseError(_started, cause) {
      fail(cause);
    },
  };
}

function firstByteTimeout(cause?: unknown): VendorError {
  return new VendorError('timeout', 'no response in time', { cause });
}

function ignoreLateError(): void {
  // The response is already complete or abandoned, so a later connection error has no effect.
}

/**
 * Classifies a connection error. `phase` is `unsent` until there is a connection, and `body` once the response headers
 * have arrived.
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
  // If a connection closes before any byte of the response arrives, we treat the vendor as unreachable. The message
  // only contains the system's code, such as ECONNREFUSED, but never an address or the original message.
  const closedWhileSending = isObject(cause) && closingErrors.has(cause);
  return new VendorError('connect', `no connection (${code ?? 'closed'})`, {
    isUnsent: isUnsent || closedWhileSending,
    closedWhileSending,
    cause,
    detail: describeConnectionError(code),
  });
}

/** Errors of keep-alive connections that closed before the request was completely sent. */
const closingErrors = new WeakSet<object>();

/**
 * Records whether a closing connection had sent its whole request. If not, the vendor can't have processed it. We know
 * this if a write failed, or if the operating system hasn't accepted the last bytes. A reset after this point proves
 * nothing, because the vendor may have read the request first.
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
        if (isCutOff && socket.bytesRead > 0) closingErrors.add(error);
      });
      callback(null, socket);
    });
  };
}
