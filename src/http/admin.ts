/**
 * Middleware for the provisioning routes. It checks the admin token first, so that unauthenticated callers can't find
 * out which objects exist or what a body has to contain.
 */
import { timingSafeEqual } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import { gatewayError } from '../core/errors.ts';
import { isNestedDeeper, maxNesting } from '../core/json/narrow.ts';
import { repeatsKey } from '../core/json/repeats-key.ts';
import { sha256 } from '../core/sha256.ts';
import { parseKey } from './authenticate.ts';
import { readJsonText } from './body.ts';
import { PlainTextError } from './plain-text-error.ts';

/**
 * Rejects requests that don't have one of the current admin tokens. We compare hashes, because then the timing doesn't
 * depend on the length or content of a token.
 */
export function requireToken(adminTokens: () => readonly string[]) {
  return (request: Request, _response: Response, next: NextFunction): void => {
    checkToken(request, adminTokens);
    next();
  };
}

/** Throws `missing_key` or `invalid_key`. */
export function checkToken(request: Request, adminTokens: () => readonly string[]): void {
  const given = sha256(parseToken(request));
  // Check all tokens. If we stopped at the first match, the timing would reveal which token it was.
  if (!adminTokens().filter((token) => timingSafeEqual(given, sha256(token))).length)
    throw gatewayError('invalid_key', { message: 'the admin token is invalid' });
}

function parseToken(request: Request): string {
  try {
    return parseKey(request.headers, false);
  } catch (cause) {
    throw gatewayError('missing_key', { message: 'the admin token is required: Authorization: Bearer <ADMIN_TOKEN>', cause });
  }
}

/** PostgreSQL can't store U+0000, and would report it as a failed query. */
export function rejectNullCharacters(request: Request, _response: Response, next: NextFunction): void {
  if (request.originalUrl.includes('%00')) throw gatewayError('bad_request', { message: 'url: must not contain U+0000' });
  next();
}

/**
 * Sets `request.body` to the parsed body, or to undefined if there is none. Text that PostgreSQL can't store is
 * rejected. Errors about the content type, the size, the syntax and repeated keys are sent as plain text
 * (docs/api/reference.md#plain-text-errors).
 */
export function readJson(limitBytes: number, adminTokens: () => readonly string[]) {
  return async (request: Request, _response: Response, next: NextFunction): Promise<void> => {
    const json = await readJsonText(request, limitBytes, async () => checkToken(request, adminTokens));
    if (isNestedDeeper(json?.value))
      throw gatewayError('bad_request', { message: `body: must not be nested more than ${maxNesting} levels deep` });
    if (json && repeatsKey(json.text, json.value))
      throw new PlainTextError(400, 'duplicate key: the same key appears twice in an object of the body');
    // In valid UTF-8 JSON, these characters can only occur as escapes. Most bodies have no such escapes, so we search
    // for those first and skip the slower check.
    if (json && /\\u(?:0000|d[89a-f])/i.test(json.text) && !isStorable(json.value))
      throw gatewayError('bad_request', { message: 'body: must not contain U+0000 or lone surrogates' });
    request.body = json?.value;
    next();
  };
}

/** PostgreSQL can't store U+0000 or lone surrogates. `JSON.stringify` escapes these, so we search for the escapes. */
function isStorable(body: unknown): boolean {
  return !/(?<!\\)(?:\\\\)*\\u(?:0000|d)/.test(JSON.stringify(body));
}
