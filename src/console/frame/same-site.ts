/**
 * Protection of forms against other sites (CSRF). Browsers say in `Sec-Fetch-Site` which site caused a request; those that do not, and
 * connections without TLS to another machine, send `Origin`. A hidden token protects where neither is sent.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Whether the headers say that the request comes from a page of this host, or from no page. */
export function isSameSite({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' || site === 'none';
  const { origin } = headers;
  if (origin === undefined) return true;
  const hosts = [headers.host, firstOf(headers['x-forwarded-host'])];
  return URL.canParse(origin) && hosts.includes(new URL(origin).host);
}

/** The token of a form: derived from the secret in the cookie, which another site cannot read. Needs no storage. */
export function csrfTokenOf(cookieSecret: string): string {
  return createHash('sha256').update(`csrf ${cookieSecret}`).digest('base64url');
}

export function isCsrfToken(given: string | null, cookieSecret: string): boolean {
  return given !== null && isEqual(given, csrfTokenOf(cookieSecret));
}

/** Text for the next page, signed with the secret of the session, so that nobody else can make the console show a text. */
export function signNotice(text: string, cookieSecret: string): string {
  const encoded = Buffer.from(text).toString('base64url');
  return `${encoded}.${noticeSignature(encoded, cookieSecret)}`;
}

/** Null for a text that was not signed by this session. */
export function readNotice(value: string, cookieSecret: string): string | null {
  const [encoded = '', signature = ''] = value.split('.');
  return isEqual(signature, noticeSignature(encoded, cookieSecret)) ? Buffer.from(encoded, 'base64url').toString() : null;
}

/** True when the browser used HTTPS, also when a proxy ended it. */
export function isSecure(request: IncomingMessage): boolean {
  return 'encrypted' in request.socket || firstOf(request.headers['x-forwarded-proto']) === 'https';
}

/** Scheme and host as the browser sees them. */
export function originOf(request: IncomingMessage): string {
  const host = firstOf(request.headers['x-forwarded-host']) ?? request.headers.host ?? '';
  const origin = `${isSecure(request) ? 'https' : 'http'}://${host}`;
  return URL.canParse(origin) ? new URL(origin).origin : 'http://localhost';
}

/** `path` when it is a path on this site, else the start page; for links that a query or a form names. Headers may contain the result. */
export function safePath(path: string | null): string {
  if (path === null || !/^\/(?![/\\])[^\\\p{Cc}]*$/u.test(path)) return '/console';
  // Parsing the path would normalize it: `/.//host` would become `//host`.
  return path.toWellFormed().replace(/[^\p{ASCII}]+/gu, encodeURIComponent);
}

function noticeSignature(encoded: string, cookieSecret: string): string {
  return createHmac('sha256', `notice ${cookieSecret}`).update(encoded).digest('base64url');
}

function isEqual(given: string, expected: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(expected)];
  return left.length === right.length && timingSafeEqual(left, right);
}

function firstOf(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header[0] : header;
  return text?.split(',', 1)[0]?.trim();
}
