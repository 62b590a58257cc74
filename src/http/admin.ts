/**
 * Middleware of the provisioning routes: the admin token, and JSON bodies up to a limit of the route.
 *
 * The token is checked first, so an unauthenticated caller learns neither which objects exist nor what a body must contain.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import { gatewayError } from '../core/errors.ts';
import { isNestedDeeper, maxNesting } from '../core/json/narrow.ts';
import { parseKey } from './authenticate.ts';
import { readJsonText } from './body.ts';

/** Rejects requests without one of the current admin tokens. Compares hashes, so that timing reveals neither length nor content. */
export function requireToken(adminTokens: () => readonly string[]) {
  return (request: Request, _response: Response, next: NextFunction): void => {
    const given = sha256(parseToken(request));
    // Compares with all of them, so that timing does not reveal which one matches.
    if (!adminTokens().filter((token) => timingSafeEqual(given, sha256(token))).length)
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

/** PostgreSQL cannot store U+0000. */
export function rejectNullCharacters(request: Request, _response: Response, next: NextFunction): void {
  if (request.originalUrl.includes('%00')) throw gatewayError('bad_request', { message: 'url: must not contain U+0000' });
  next();
}

/**
 * Sets `request.body` to the parsed body, undefined when there is none. Rejects text that PostgreSQL cannot store. Content type, size and
 * syntax errors are plain text (docs/api/reference.md#plain-text-errors).
 */
export function readJson(limitBytes: number) {
  return async (request: Request, _response: Response, next: NextFunction): Promise<void> => {
    const json = await readJsonText(request, limitBytes);
    if (isNestedDeeper(json?.value))
      throw gatewayError('bad_request', { message: `body: must not be nested in more than ${maxNesting} levels` });
    // In valid UTF-8 JSON such characters occur only as escapes; most bodies have none and skip the second check.
    if (json && /\\u(?:0000|d[89a-f])/i.test(json.text) && !isStorable(json.value))
      throw gatewayError('bad_request', { message: 'body: must not contain U+0000 or lone surrogates' });
    request.body = json?.value;
    next();
  };
}

/** PostgreSQL stores neither U+0000 nor lone surrogates. JSON.stringify escapes just these and other control characters. */
function isStorable(body: unknown): boolean {
  return !/(?<!\\)(?:\\\\)*\\u(?:0000|d)/.test(JSON.stringify(body));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
