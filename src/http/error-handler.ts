/** Converts errors to status and body; the only place that does (docs/api/reference.md#errors). */

import type { ServerResponse } from 'node:http';
import type { ErrorRequestHandler } from 'express';
import { errorSpecs, GatewayError, gatewayError, VendorError } from '../core/errors.ts';
import type { Logger } from '../observability/logger.ts';
import { ClientDisconnectedError } from './body.ts';
import { endWithLinger } from './lingering-close.ts';
import { PlainTextError } from './plain-text-error.ts';

/** Format of an error body: the messages route has its own. */
export type ErrorStyle = 'chat' | 'messages';

/** Sends `error` in `style`. An unexpected error is logged and sent as `internal_error`. */
export function sendError(response: ServerResponse, error: unknown, style: ErrorStyle, logger: Logger): void {
  if (error instanceof ClientDisconnectedError || response.destroyed) return;
  if (response.headersSent) {
    // Too late for a status: closing the connection signals an incomplete response.
    if (!(error instanceof GatewayError)) logger.error({ err: error }, 'response failed after it had started');
    response.destroy();
    return;
  }
  if (error instanceof PlainTextError || error instanceof URIError) {
    sendPlainText(response, error instanceof PlainTextError ? error : new PlainTextError(400, 'the URL is invalid'));
    return;
  }
  const apiError = error instanceof GatewayError ? error : gatewayError('internal_error', { cause: error });
  // A vendor's message may quote the prompt; the log line of the call reports its failure.
  if (apiError.status >= 500 && apiError.cause !== undefined && !(apiError.cause instanceof VendorError))
    logger.error({ err: apiError.cause, code: apiError.code }, 'call failed');
  const { retryAfterSeconds } = errorSpecs[apiError.code];
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', String(retryAfterSeconds));
  sendJson(response, apiError.status, style === 'messages' ? messagesBody(apiError) : chatBody(apiError));
}

function chatBody({ code, message }: GatewayError): unknown {
  return { error: { message, type: code, code } };
}

function messagesBody({ status, message }: GatewayError): unknown {
  return { type: 'error', error: { type: messagesErrorType(status), message } };
}

/** Error type of the messages dialect for a status (docs/api/reference.md#errors). */
export function messagesErrorType(status: number): string {
  switch (status) {
    case 400:
    case 415:
    case 422:
      return 'invalid_request_error';
    case 401:
      return 'authentication_error';
    case 402:
    case 403:
      return 'permission_error';
    case 404:
      return 'not_found_error';
    case 413:
      return 'request_too_large';
    case 429:
      return 'rate_limit_error';
    case 529:
      return 'overloaded_error';
    default:
      return 'api_error';
  }
}

/** Sends JSON of the gateway. `no-store`, because an intermediate cache would serve it to another caller. */
export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  const bytes = Buffer.from(JSON.stringify(body));
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length, 'cache-control': 'no-store' });
  endWithLinger(response, bytes);
}

function sendPlainText(response: ServerResponse, { status, message }: PlainTextError): void {
  const bytes = Buffer.from(`${message}\n`);
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'content-length': bytes.length, 'cache-control': 'no-store' });
  endWithLinger(response, bytes);
}

/** Express error handler for routes whose handlers throw. */
export function createErrorHandler(logger: Logger): ErrorRequestHandler {
  return (error: unknown, _request, response, _next) => {
    sendError(response, error, 'chat', logger);
  };
}
