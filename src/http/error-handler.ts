/** Converts errors to HTTP statuses and bodies (docs/api/reference.md#errors). No other file does this. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ErrorRequestHandler } from 'express';
import { contextOverflowCode, type ErrorCode, GatewayError, gatewayError, VendorError } from '../core/errors.ts';
import type { Logger } from '../observability/logger.ts';
import { recordErrorCode } from '../observability/tracing.ts';
import { ClientDisconnectedError } from './body.ts';
import { breakOff } from './break-off.ts';
import { endWithLinger } from './lingering-close.ts';
import { PlainTextError } from './plain-text-error.ts';

/** The format of an error body, which is `messages` on the messages route and `chat` everywhere else. */
export type ErrorStyle = 'chat' | 'messages';

/**
 * Returns the style of errors that occur before a route has been found, e.g. because the method is wrong. Only clients
 * of Anthropic's API call the paths below `/v1/messages`, so they also get its style.
 */
export function errorStyleOf(url: string): ErrorStyle {
  return /^(?:https?:\/\/[^/?#]*)?\/+v1\/+messages(?:[/?#]|$)/i.test(url) ? 'messages' : 'chat';
}

/** Returns how long to delay an error response to this request, in milliseconds (`error-pace.ts`). */
export type ErrorPace = (request: IncomingMessage) => number;

export interface ErrorReports {
  readonly logger: Logger;
  readonly countError: (code: ErrorCode) => void;
  readonly errorPace: ErrorPace;
}

/**
 * Sends an error response, which can be delayed (`error-pace.ts`). Errors that we didn't expect are logged, and the
 * caller gets `internal_error`. `callId` is the id of the call that failed, if there is one.
 */
export function sendError(response: ServerResponse, error: unknown, style: ErrorStyle, reports: ErrorReports, callId?: string): void {
  const { logger, countError } = reports;
  if (error instanceof ClientDisconnectedError || response.destroyed) return;
  const call = callId === undefined ? {} : { call: callId };
  if (response.headersSent) {
    // The status has already been sent, so all we can do is break off the response.
    if (!(error instanceof GatewayError)) logger.error({ ...call, err: error }, 'response failed after its headers were sent');
    breakOff(response);
    return;
  }
  if (error instanceof PlainTextError || error instanceof URIError) {
    const { status, message } = error instanceof PlainTextError ? error : invalidUrl();
    countError('bad_request');
    sendPaced(response, reports, call, () => sendBytes(response, status, 'text/plain; charset=utf-8', Buffer.from(`${message}\n`)));
    return;
  }
  const apiError = error instanceof GatewayError ? error : gatewayError('internal_error', { cause: error });
  countError(apiError.code);
  // Don't log vendor errors here, because their messages can quote the prompt. The log line of the call reports them.
  if (apiError.status >= 500 && apiError.cause !== undefined && !(apiError.cause instanceof VendorError))
    logger.error({ ...call, err: apiError.cause, code: apiError.code }, 'call failed');
  const { status, code, retryAfterSeconds, shouldRetry } = apiError;
  recordErrorCode(code);
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', String(retryAfterSeconds));
  if (shouldRetry === false) response.setHeader('x-should-retry', 'false');
  const body = errorBody(apiError, style);
  sendPaced(response, reports, call, () => sendJson(response, status, body));
}

export function errorBody({ status, code, message, members }: GatewayError, style: ErrorStyle): unknown {
  return style === 'messages'
    ? { type: 'error', error: { type: messagesErrorType(status), message, ...members } }
    : { error: { message, type: code, code, ...members } };
}

function sendPaced(
  response: ServerResponse,
  { logger, errorPace }: ErrorReports,
  call: { readonly call?: string },
  send: () => void,
): void {
  const delayMs = errorPace(response.req);
  if (delayMs === 0) {
    send();
    return;
  }
  const timer = setTimeout(() => {
    if (response.headersSent) return;
    try {
      send();
    } catch (err) {
      // An error that's thrown in a timer would end the process.
      logger.error({ ...call, err }, 'failed to send an error response');
      response.destroy();
    }
  }, delayMs);
  response.once('close', () => clearTimeout(timer));
}

/**
 * Client libraries search the error message for this text to recognize a prompt that's too long. If the vendor speaks
 * the other dialect, its message doesn't contain the text.
 */
const overflowWords: Readonly<Record<ErrorStyle, string>> = { chat: contextOverflowCode, messages: 'prompt is too long' };

/**
 * Prepares an error for callers that have asked for vendor codes (docs/api/reference.md#vendor-codes). In the chat
 * style, the vendor's code replaces ours. If the prompt was too long, we also add the text that client libraries search
 * for.
 */
export function withVendorCode(error: unknown, style: ErrorStyle): unknown {
  if (!(error instanceof GatewayError) || error.members.upstream_code === undefined) return error;
  const { code, message, status, cause, retryAfterSeconds, members } = error;
  const vendorCode = error.members.upstream_code;
  const words = overflowWords[style];
  const isUnnamed = vendorCode === contextOverflowCode && !message.toLowerCase().includes(words);
  return gatewayError(code, {
    message: isUnnamed ? `${message} (${words})` : message,
    ...{ status, cause, retryAfterSeconds },
    members: style === 'chat' ? { ...members, code: vendorCode } : members,
  });
}

export function invalidUrl(): PlainTextError {
  return new PlainTextError(400, 'the URL is invalid');
}

export function rawHash(): GatewayError {
  return gatewayError('bad_request', { message: 'url: must not contain a #, write %23 instead' });
}

export function messagesErrorType(status: number): string {
  return messagesErrorTypes[status] ?? 'api_error';
}

const messagesErrorTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'permission_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  415: 'invalid_request_error',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  sendBytes(response, status, 'application/json', Buffer.from(JSON.stringify(body)));
}

/**
 * Sends a complete body, with `no-store` so that no cache on the way can serve it to another caller. `headers` is a
 * flat list of names and values, because `writeHead` with a list takes less CPU time than calling `setHeader` for each
 * of them.
 */
export function sendBytes(response: ServerResponse, status: number, contentType: string, bytes: Buffer, headers: string[] = []): void {
  headers.push('content-type', contentType, 'content-length', String(bytes.length), 'cache-control', 'no-store');
  response.writeHead(status, headers);
  endWithLinger(response, bytes);
}

export function createErrorHandler(reports: ErrorReports): ErrorRequestHandler {
  return (error: unknown, request, response, _next) => {
    sendError(response, error, errorStyleOf(request.url), reports);
  };
}
