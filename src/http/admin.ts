/**
 * Middleware for the provisioning routes. It checks the admin token first, so that unauthenticated callers can't find
 * out which objects exist or what a body has to contain.
 */
import { timingSafeEqual } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import { gatewayError } from '../core/errors.ts';
import { isNestedDeeper, maxNesting } from '../core/json/narrow.ts';
import { sha256 } from '../core/sha256.ts';
import { parseKey } from './authenticate.ts';
import { readJsonText } from './body.ts';

/**
 * Rejects requests without one of the current admin tokens. We compare hashes, so that the timing doesn't depend on the
 * length or content of a token.
 */
export function requireToken(adminTokens: () => readonly string[]) {
  return (request: Request, _response: Response, next: NextFunction): void => {
    const given = sha256(parseToken(request));
    // Compare with all tokens, so that the timing doesn't reveal which one matches.
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

/** Rejects URLs with U+0000, because PostgreSQL can't store it. */
export function rejectNullCharacters(request: Request, _response: Response, next: NextFunction): void {
  if (request.originalUrl.includes('%00')) throw gatewayError('bad_request', { message: 'url: must not contain U+0000' });
  next();
}

/**
 * Sets `request.body` to the parsed body, or to undefined if there isn't one. Rejects text that PostgreSQL can't store.
 * Errors about the content type, the size and the syntax are plain text (docs/api/reference.md#plain-text-errors).
 */
export function readJson(limitBytes: number) {
  return async (request: Request, _response: Response, next: NextFunction): Promise<void> => {
    const json = await readJsonText(request, limitBytes);
    if (isNestedDeeper(json?.value))
      throw gatewayError('bad_request', { message: `body: must not be nested more than ${maxNesting} levels deep` });
    // Valid UTF-8 JSON can only contain these characters as escapes. We search for the escapes first, because most
    // bodies have none and don't need the slower check.
    if (json && /\\u(?:0000|d[89a-f])/i.test(json.text) && !isStorable(json.value))
      throw gatewayError('bad_request', { message: 'body: must not contain U+0000 or lone surrogates' });
    request.body = json?.value;
    next();
  };
}

/** PostgreSQL can't store U+0000 or lone surrogates. JSON.stringify escapes these, so we search for the escapes. */
function isStorable(body: unknown): boolean {
  return !/(?<!\\)(?:\\\\)*\\u(?:0000|d)/.test(JSON.stringify(body));
}
