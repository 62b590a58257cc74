/**
 * The only door to the network: every call to a vendor goes through here and comes back as an answer or as one VendorError.
 *
 * One undici pool per provider origin, redirects off (undici follows none), sizes bounded, every wait limited (lessons, design note 7).
 */
import type { Readable } from 'node:stream';
import { errors, Pool } from 'undici';
import { VendorError } from '../core/errors.ts';

export interface HttpRequest {
  readonly url: URL;
  readonly method: 'POST' | 'GET';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | null;
  readonly connectTimeoutMs: number;
  /** Until the answer's headers. */
  readonly firstByteTimeoutMs: number;
  /** Between two chunks of the answer. */
  readonly idleTimeoutMs: number;
  /** Ends the request; what is thrown then is a VendorError `aborted`. Absent: nobody can end it but the timeouts. */
  readonly signal?: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Its errors become VendorErrors through `readAll` and `vendorErrorOf`. */
  readonly body: Readable;
  /** Must be called when the body may not have been read to its end. A short rest is read, so that the connection can be used again; a longer one ends it. */
  release(): void;
}

export interface VendorHttpClient {
  send(request: HttpRequest): Promise<HttpResponse>;
  /** Ends running requests with VendorError `stopped`, and refuses new ones with `connect`: what still waits for its vendor settles at once. */
  abort(): void;
  /** Ends idle connections and waits for running requests. */
  close(): Promise<void>;
}

/** Behind the last event of a stream there is at most a line end. */
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
          body,
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

/** Reads what is left of a body, up to `releaseLimitBytes`. (undici's own `dump` counts what was read before too, and so ends every longer stream.) */
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

/** Ends a body of which nothing more is wanted, and with it its connection. */
export function destroyBody(body: Readable): void {
  if (!body.destroyed) body.on('error', ignoreLateError).destroy();
}

function ignoreLateError(): void {
  // The answer has been used or given up; that its connection breaks afterwards changes nothing.
}

/** The whole body; VendorError `unreadable` when it is larger than `limitBytes`, `broken` when it stops early. */
export async function readBody(body: Readable, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      const bytes: Buffer = chunk;
      size += bytes.length;
      if (size > limitBytes) {
        body.destroy();
        throw new VendorError('unreadable', `the answer is larger than ${limitBytes} bytes`);
      }
      chunks.push(bytes);
    }
  } catch (cause) {
    throw toVendorError(cause, 'body');
  }
  const [only] = chunks;
  return only && chunks.length === 1 ? only : Buffer.concat(chunks, size);
}

/** What a failure of the connection means. `phase` tells whether the answer had begun. */
export function toVendorError(cause: unknown, phase: 'start' | 'body'): VendorError {
  if (cause instanceof VendorError) return cause;
  if (isAbort(cause)) return new VendorError('aborted', 'the request was ended', { cause });
  if (cause instanceof errors.HeadersTimeoutError) return new VendorError('timeout', 'no answer in time', { cause });
  if (cause instanceof errors.BodyTimeoutError) return new VendorError('broken', 'the answer stopped coming', { cause });
  if (phase === 'body') return new VendorError('broken', 'the answer broke off', { cause });
  // A connection that closes before any byte of the answer counts as no connection: the vendor cannot be reached.
  return new VendorError('connect', `no connection (${systemCode(cause)})`, { cause });
}

function isAbort(cause: unknown): boolean {
  return (
    cause instanceof errors.RequestAbortedError ||
    (typeof cause === 'object' && cause !== null && 'name' in cause && cause.name === 'AbortError')
  );
}

/** The system's short code, such as ECONNREFUSED; never an address or a message. */
function systemCode(cause: unknown): string {
  const code = typeof cause === 'object' && cause !== null && 'code' in cause ? cause.code : undefined;
  return typeof code === 'string' ? code : 'closed';
}
