/** Converts the errors of connections to VendorErrors, and finds out whether a request can safely be sent again. */
import { type buildConnector, errors } from 'undici';
import { errorCode } from '../core/error-messages.ts';
import { VendorError } from '../core/errors.ts';
import { asObject, asString, isObject } from '../core/json/narrow.ts';
import { describeConnectionError } from './connection-error.ts';

export function firstByteTimeout(cause?: unknown): VendorError {
  return new VendorError('timeout', 'timed out waiting for the response', { cause });
}

export function ignoreLateError(): void {
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

/** Call this if we hadn't sent the whole request when a connection failed. On a new connection, this proves nothing. */
export function markCutOff(error: unknown): void {
  if (isObject(error) && reusedErrors.has(error)) closingErrors.add(error);
}

/**
 * Records whether a connection was closed before it had sent the whole request. In that case the vendor can't have
 * processed it, so it's safe to send it again. We only know this if a write has failed, if the operating system hasn't
 * accepted the last bytes, or if parts of a large body are still waiting for their turn (`markCutOff`). After that,
 * a reset proves nothing, because the vendor may have read the request first.
 */
export function watchClosing(connect: buildConnector.connector): buildConnector.connector {
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
