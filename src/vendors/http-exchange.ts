/** Receives the response to one request of the HTTP client. */
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { VendorError } from '../core/errors.ts';
import type { TurnBatch } from '../core/turn-batch.ts';
import { createDecodedBody, parseContentEncoding } from './decode-body.ts';
import { createResponseBody, type HttpResponse, type IncomingBody } from './response-body.ts';
import { firstByteTimeout, ignoreLateError, markCutOff, toVendorError } from './transport-errors.ts';

interface ExchangeOptions {
  readonly upload: Buffer | readonly Buffer[] | Readable | null;
  readonly firstByteTimeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly turnBatch: TurnBatch;
  readonly resolve: (response: HttpResponse) => void;
  readonly reject: (error: VendorError) => void;
  /** Called when the request no longer uses its connection. */
  readonly onEnd: () => void;
}

/**
 * Receives one response from undici. We could use undici's `request`, but its callbacks need three times as much CPU
 * (measured).
 */
export function createExchange(options: ExchangeOptions): Dispatcher.DispatchHandler {
  const { upload, firstByteTimeoutMs, signal, turnBatch, onEnd } = options;
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
    if (isRunning) onEnd();
    isRunning = false;
  };
  const fail = (cause: unknown): void => {
    clearTimeout(firstByteTimer);
    end();
    if (upload instanceof Readable) {
      if (!upload.readableEnded) markCutOff(cause);
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
