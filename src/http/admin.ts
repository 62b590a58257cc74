/**
 * The door of the provisioning routes: whoever holds the admin token, and JSON bodies up to a limit of the route.
 *
 * The token is looked at before anything else, so an unknown caller learns neither what there is nor what a body should hold.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import express from 'express';
import { gatewayError } from '../core/errors.ts';
import { parseKey } from './authenticate.ts';
import { checkContentType } from './body.ts';
import { PlainTextError } from './plain-text-error.ts';

/** Refuses whoever does not hold the token. Hashes are compared, so that neither length nor content shows in the time. */
export function requireToken(adminToken: string) {
  const expected = sha256(adminToken);
  return (request: Request, _response: Response, next: NextFunction): void => {
    if (!timingSafeEqual(sha256(parseToken(request)), expected))
      throw gatewayError('invalid_key', { message: 'the admin token is not valid' });
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

/** Leaves the parsed body in `request.body`, undefined when there is none. Text that the database cannot keep is refused, in the address too. */
export function readJson(limitBytes: number) {
  const readBytes = express.raw({ type: () => true, limit: limitBytes, inflate: false });
  return (request: Request, response: Response, next: NextFunction): void => {
    if (request.originalUrl.includes('%00')) throw gatewayError('bad_request', { message: 'the address holds U+0000' });
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
      } catch (fault) {
        next(fault);
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
  // Valid UTF-8 and JSON hold such characters only as escapes; most bodies have none, and are not looked at again.
  if (/\\u(?:0000|d[89a-f])/i.test(text) && !isStorable(body))
    throw gatewayError('bad_request', { message: 'the body holds U+0000 or half of a surrogate pair' });
  return body;
}

/** PostgreSQL keeps neither U+0000 nor halves of surrogate pairs. Written anew, JSON has just these two, and other control characters, as escapes. */
function isStorable(body: unknown): boolean {
  return !/(?<!\\)(?:\\\\)*\\u(?:0000|d)/.test(JSON.stringify(body));
}

/** What Express's reader says is an error of `http-errors` with a type. */
function toBodyError(error: unknown, limitBytes: number): Error {
  const type = error instanceof Error && 'type' in error ? error.type : undefined;
  if (type === 'entity.too.large') return new PlainTextError(413, `the body is larger than ${limitBytes} bytes`);
  return gatewayError('bad_request', { message: 'the body could not be read', cause: error });
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
