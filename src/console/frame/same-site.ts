/**
 * Protects forms against CSRF. Browsers say in `Sec-Fetch-Site` whether a request comes from the same site. Older
 * browsers, and browsers that talk to a remote host without TLS, send `Origin` instead. If neither is present, the
 * hidden token still protects the form.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Returns true if the request comes from one of our own pages, or from no page at all (e.g. from the address bar). */
export function isSameSite({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' || site === 'none';
  const { origin } = headers;
  if (origin === undefined) return true;
  const hosts = [headers.host, firstOf(headers['x-forwarded-host'])];
  return URL.canParse(origin) && hosts.includes(new URL(origin).host);
}

/**
 * Derives a form's CSRF token from the secret in the cookie, which other sites can't read, so it doesn't have to be
 * stored. A random mask makes the token different in every page. Otherwise, somebody who can make a browser request
 * pages with texts of their choice could tell from the sizes of the compressed pages when a text contains a part of the
 * token (BREACH).
 */
export function csrfTokenOf(cookieSecret: string): string {
  const token = plainToken(cookieSecret);
  const mask = randomBytes(token.length);
  return Buffer.concat([mask, xor(token, mask)]).toString('base64url');
}

export function isCsrfToken(given: string | null, cookieSecret: string): boolean {
  const token = plainToken(cookieSecret);
  const bytes = Buffer.from(given ?? '', 'base64url');
  if (bytes.length !== 2 * token.length) return false;
  return timingSafeEqual(xor(bytes.subarray(0, token.length), bytes.subarray(token.length)), token);
}

function plainToken(cookieSecret: string): Buffer {
  return createHash('sha256').update(`csrf ${cookieSecret}`).digest();
}

function xor(left: Buffer, right: Buffer): Buffer {
  return left.map((byte, index) => byte ^ (right[index] ?? 0)) as Buffer;
}

/** Signs a text with the session's secret. The signature is only valid for the same purpose, e.g. `notice`. */
export function signText(purpose: string, text: string, cookieSecret: string): string {
  const encoded = Buffer.from(text).toString('base64url');
  return `${encoded}.${signatureOf(purpose, encoded, cookieSecret)}`;
}

/** Returns null unless this session has signed the text for the same purpose. */
export function readSignedText(purpose: string, value: string, cookieSecret: string): string | null {
  const [encoded = '', signature = ''] = value.split('.');
  return isEqual(signature, signatureOf(purpose, encoded, cookieSecret)) ? Buffer.from(encoded, 'base64url').toString() : null;
}

/** Returns true if the browser uses HTTPS, even if a proxy terminates it. */
export function isSecure(request: IncomingMessage): boolean {
  return 'encrypted' in request.socket || firstOf(request.headers['x-forwarded-proto']) === 'https';
}

export function originOf(request: IncomingMessage): string {
  const host = firstOf(request.headers['x-forwarded-host']) ?? request.headers.host ?? '';
  const origin = `${isSecure(request) ? 'https' : 'http'}://${host}`;
  return URL.canParse(origin) ? new URL(origin).origin : 'http://localhost';
}

/**
 * Sanitizes a redirect target from a query or a form. Returns the start page if it isn't a path on this site. The
 * result is safe to put into a header.
 */
export function safePath(path: string | null): string {
  if (path === null || !/^\/(?![/\\])[^\\\p{Cc}]*$/u.test(path)) return '/console';
  // Don't return the parsed path, because parsing turns `/.//host` into `//host`.
  return path.toWellFormed().replace(/[^\p{ASCII}]+/gu, encodeURIComponent);
}

function signatureOf(purpose: string, encoded: string, cookieSecret: string): string {
  return createHmac('sha256', `${purpose} ${cookieSecret}`).update(encoded).digest('base64url');
}

function isEqual(given: string, expected: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(expected)];
  return left.length === right.length && timingSafeEqual(left, right);
}

function firstOf(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header[0] : header;
  return text?.split(',', 1)[0]?.trim();
}
