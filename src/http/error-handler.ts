/** The one place where an error becomes a status and a body (specification 2 'Error bodies', 7). */

import type { ServerResponse } from 'node:http';
import type { ErrorRequestHandler } from 'express';
import { errorSpec, GatewayError, gatewayError, VendorError } from '../core/errors.ts';
import type { Logger } from '../observability/logger.ts';
import { ClientDisconnectedError } from './body.ts';
import { endWithLinger } from './lingering-close.ts';
import { PlainTextError } from './plain-text-error.ts';

/** Which body an error has: the messages route has its own (specification 2). */
export type ErrorStyle = 'chat' | 'messages';

/** Sends `error` in `style`. What is not ours becomes a fixed sentence; the original goes to the log. */
export function sendError(response: ServerResponse, error: unknown, style: ErrorStyle, logger: Logger): void {
  if (error instanceof ClientDisconnectedError || response.destroyed) return;
  if (response.headersSent) {
    // Too late for a status: the connection is all that is left to tell the caller that the answer is not whole.
    if (!(error instanceof GatewayError)) logger.error({ error }, 'failed after the answer had begun');
    response.destroy();
    return;
  }
  if (error instanceof PlainTextError || error instanceof URIError) {
    sendPlainText(response, error instanceof PlainTextError ? error : new PlainTextError(400, 'the address is not valid'));
    return;
  }
  const gatewayErr = error instanceof GatewayError ? error : gatewayError('internal_error', { cause: error });
  // A vendor's words may quote the prompt; the call's own log line tells of its failure.
  if (gatewayErr.status >= 500 && gatewayErr.cause !== undefined && !(gatewayErr.cause instanceof VendorError))
    logger.error({ error: gatewayErr.cause, code: gatewayErr.code }, 'call failed');
  const { retryAfterSeconds } = errorSpec(gatewayErr.code);
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', String(retryAfterSeconds));
  sendJson(response, gatewayErr.status, style === 'messages' ? messagesBody(gatewayErr) : chatBody(gatewayErr));
}

function chatBody({ code, message }: GatewayError): unknown {
  return { error: { message, type: code, code } };
}

function messagesBody({ status, message }: GatewayError): unknown {
  return { type: 'error', error: { type: messagesErrorType(status), message } };
}

/** Specification 7.3. */
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

/** A JSON answer of our own; never cached on the way (lessons 25). */
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

/** For routes whose handlers throw: Express hands the error over. */
export function createErrorHandler(logger: Logger): ErrorRequestHandler {
  return (error: unknown, _request, response, _next) => {
    sendError(response, error, 'chat', logger);
  };
}
