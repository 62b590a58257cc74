/**
 * The HTTP client for vendors: every request to a vendor goes through it and ends with a response or one VendorError.
 *
 * One undici pool per origin, no redirects (undici follows none), bounded sizes, and a timeout for every wait.
 */
import { Readable } from 'node:stream';
import { errors, Pool } from 'undici';
import { errorCode } from '../core/error-messages.ts';
import { VendorError } from '../core/errors.ts';
import { asString, isObject } from '../core/json/narrow.ts';

export interface Timeouts {
  readonly connectTimeoutMs: number;
  /** Until the response headers. */
  readonly firstByteTimeoutMs: number;
  /** Between two chunks of the response. */
  readonly idleTimeoutMs: number;
}

export interface HttpRequest extends Timeouts {
  readonly url: URL;
  readonly method: 'POST' | 'GET';
  readonly headers: Readonly<Record<string, string>>;
  /** A body of chunks needs the header `content-length`, or is sent chunked. */
  readonly body: Buffer | AsyncIterable<Buffer> | null;
  /** Aborts the request with VendorError `aborted`. When absent, only the timeouts end it. */
  readonly signal?: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** `readBody` and `toVendorError` turn its errors into VendorErrors. */
  readonly body: Readable;
  /** Call unless the body was read to its end. Drains a short remainder, so that the connection is reused; a longer one closes it. */
  release(): void;
}

export interface VendorHttpClient {
  send(request: HttpRequest): Promise<HttpResponse>;
  /** Ends running requests with VendorError `stopped` and rejects new ones with `connect`, so that waiting calls settle at once. */
  abort(): void;
  /** Closes idle connections and waits for running requests. */
  close(): Promise<void>;
}

/** After the last event of a stream there is at most a line end. */
const maxDrainBytes = 16 * 1024;

export function createVendorHttpClient(): VendorHttpClient {
  const pools = new Map<string, Pool>();
  let abortedWith: VendorError | null = null;

  const poolFor = (origin: string, connectTimeoutMs: number): Pool => {
    const key = `${connectTimeoutMs} ${origin}`;
    let pool = pools.get(key);
    if (!pool) {
      pool = new Pool(origin, { connect: { timeout: connectTimeoutMs }, keepAliveTimeout: 30_000, pipelining: 1 });
      pools.set(key, pool);
    }
    return pool;
  };

  return {
    async send({ url, method, headers, body, connectTimeoutMs, firstByteTimeoutMs, idleTimeoutMs, signal }) {
      if (abortedWith) throw new VendorError('connect', abortedWith.message);
      try {
        const response = await poolFor(url.origin, connectTimeoutMs).request({
          path: url.pathname + url.search,
          method,
          headers: { ...headers },
          body: body === null || Buffer.isBuffer(body) ? body : Readable.from(body, { objectMode: false }),
          headersTimeout: firstByteTimeoutMs,
          bodyTimeout: idleTimeoutMs,
          ...(signal ? { signal } : {}),
        });
        const { statusCode, headers: responseHeaders, body: content } = response;
        return { status: statusCode, headers: responseHeaders, body: content, release: () => drainRemainder(content) };
      } catch (cause) {
        throw toVendorError(cause, 'start');
      }
    },
    abort() {
      abortedWith ??= new VendorError('stopped', 'the gateway is stopping');
      for (const pool of pools.values()) pool.destroy(abortedWith, ignoreLateError);
    },
    async close() {
      if (!abortedWith) await Promise.all([...pools.values()].map((pool) => pool.close()));
    },
  };
}

/** Reads the rest of a body, up to `maxDrainBytes`. (undici's `dump` also counts bytes read before, and so ends every longer stream.) */
function drainRemainder(body: Readable): void {
  if (body.destroyed || body.readableEnded) return;
  let drainedBytes = 0;
  body.on('error', ignoreLateError);
  body.on('data', (chunk: Buffer) => {
    drainedBytes += chunk.length;
    if (drainedBytes > maxDrainBytes) body.destroy();
  });
  body.resume();
}

/** Destroys a body, and with it its connection. */
export function destroyBody(body: Readable): void {
  if (!body.destroyed) body.on('error', ignoreLateError).destroy();
}

function ignoreLateError(): void {
  // The response is already complete or abandoned, so a later connection error has no effect.
}

/** Reads a whole body; VendorError `unreadable` when it is larger than `limitBytes`, `broken` when it ends early. */
export async function readBody(body: Readable, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      const bytes: Buffer = chunk;
      size += bytes.length;
      if (size > limitBytes) {
        body.destroy();
        throw new VendorError('unreadable', `the response is larger than ${limitBytes} bytes`);
      }
      chunks.push(bytes);
    }
  } catch (cause) {
    throw toVendorError(cause, 'body');
  }
  const [only] = chunks;
  return only && chunks.length === 1 ? only : Buffer.concat(chunks, size);
}

/** Relays a body with back pressure. Throws VendorError `broken` and `aborted`; returning it early ends the vendor's request. */
export async function* relayBody(body: Readable): AsyncGenerator<Buffer, void> {
  try {
    yield* body;
  } catch (cause) {
    throw toVendorError(cause, 'body');
  } finally {
    destroyBody(body);
  }
}

/** Classifies a connection error. `phase` is `body` once the response headers have arrived. */
export function toVendorError(cause: unknown, phase: 'start' | 'body'): VendorError {
  if (cause instanceof VendorError) return cause;
  if (cause instanceof errors.RequestAbortedError || (isObject(cause) && cause.name === 'AbortError'))
    return new VendorError('aborted', 'the request was ended', { cause });
  if (cause instanceof errors.HeadersTimeoutError) return new VendorError('timeout', 'no response in time', { cause });
  if (cause instanceof errors.BodyTimeoutError) return new VendorError('broken', 'the response stalled', { cause });
  if (phase === 'body') return new VendorError('broken', 'the response broke off', { cause });
  // A connection that closes before any byte of the response counts as unreachable.
  // Only the system's code, such as ECONNREFUSED: never an address or a message.
  return new VendorError('connect', `no connection (${asString(errorCode(cause)) ?? 'closed'})`, { cause });
}
