/**
 * Middleware of the provisioning routes: the admin token, and JSON bodies up to a limit of the route.
 *
 * The token is checked first, so an unauthenticated caller learns neither which objects exist nor what a body must contain.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import express from 'express';
import { gatewayError } from '../core/errors.ts';
import { parseKey } from './authenticate.ts';
import { checkContentType } from './body.ts';
import { PlainTextError } from './plain-text-error.ts';

/** Rejects requests without the admin token. Compares hashes, so that timing reveals neither length nor content. */
export function requireToken(adminToken: string) {
  const expected = sha256(adminToken);
  return (request: Request, _response: Response, next: NextFunction): void => {
    if (!timingSafeEqual(sha256(parseToken(request)), expected))
      throw gatewayError('invalid_key', { message: 'the admin token is invalid' });
    next();
  };
}

function parseToken(request: Request): string {
  try {
    return parseKey(request.headers, false);
  } catch (cause) {
    throw gatewayError('missing_key', { message: 'the admin token is required: Authorization: Bearer <ADMIN_TOKEN>', cause });
  }
}

/**
 * Sets `request.body` to the parsed body, undefined when there is none. Rejects text that PostgreSQL cannot store, also in the URL.
 */
export function readJson(limitBytes: number) {
  const readBytes = express.raw({ type: () => true, limit: limitBytes, inflate: false });
  return (request: Request, response: Response, next: NextFunction): void => {
    if (request.originalUrl.includes('%00')) throw gatewayError('bad_request', { message: 'url: must not contain U+0000' });
    const hasBody = request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
    if (!hasBody) {
      request.body = undefined;
      next();
      return;
    }
    checkContentType(request);
    readBytes(request, response, (error?: unknown) => {
      try {
        if (error) throw toBodyError(error, limitBytes);
        request.body = parseBody(request.body);
        next();
      } catch (parseError) {
        next(parseError);
      }
    });
  };
}

function parseBody(bytes: unknown): unknown {
  if (!Buffer.isBuffer(bytes) || bytes.length === 0) return undefined;
  let text: string;
  let body: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    body = JSON.parse(text);
  } catch (cause) {
    throw gatewayError('bad_request', { message: 'the body is not valid JSON', cause });
  }
  // In valid UTF-8 JSON such characters occur only as escapes; most bodies have none and skip the second check.
  if (/\\u(?:0000|d[89a-f])/i.test(text) && !isStorable(body))
    throw gatewayError('bad_request', { message: 'body: must not contain U+0000 or lone surrogates' });
  return body;
}

/** PostgreSQL stores neither U+0000 nor lone surrogates. JSON.stringify escapes just these and other control characters. */
function isStorable(body: unknown): boolean {
  return !/(?<!\\)(?:\\\\)*\\u(?:0000|d)/.test(JSON.stringify(body));
}

/** Maps the errors of Express's body reader, which have a `type` from `http-errors`. */
function toBodyError(error: unknown, limitBytes: number): Error {
  const type = error instanceof Error && 'type' in error ? error.type : undefined;
  if (type === 'entity.too.large') return new PlainTextError(413, `the body is larger than ${limitBytes} bytes`);
  return gatewayError('bad_request', { message: 'the body could not be read', cause: error });
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
