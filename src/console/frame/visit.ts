/** A request to the console, together with its session and cookies. */
import { randomBytes } from 'node:crypto';
import type { Request } from 'express';
import { gatewayError } from '../../core/errors.ts';
import { clientAddress } from '../../http/client-address.ts';
import { type Cookie, formCookieName, parseCookies, sessionCookieName } from '../../http/cookies.ts';
import type { Role, Session } from '../../people/person.ts';
import type { Project } from '../../projects/projects.ts';
import type { ConsoleContext } from './route.ts';
import { csrfTokenOf, isSecure, originOf, readSignedText, signText } from './same-site.ts';

export interface Visit {
  readonly request: Request;
  readonly url: URL;
  readonly now: number;
  readonly secure: boolean;
  readonly cookies: Readonly<Record<string, string>>;
  readonly session: Session | null;
  /**
   * The secrets from the cookies, which sign forms and notices. The session's secret comes first. There is always at
   * least one.
   */
  readonly secrets: readonly [string, ...string[]];
  /** Set if the visitor had no cookie from which we could derive the CSRF token. */
  readonly newCookie: Cookie | null;
  /** True if htmx will replace a part of a page with the response. */
  readonly isPartial: boolean;
}

export interface VisitedProject {
  readonly project: Project;
  readonly role: Role;
}

export async function createVisit(
  request: Request,
  { sessions, now }: { readonly sessions: { find(secret: string): Promise<Session | null> }; readonly now: number },
): Promise<Visit> {
  const secure = isSecure(request);
  const cookies = parseCookies(request.headers.cookie);
  const sessionSecret = cookies[sessionCookieName(secure)];
  const session = sessionSecret === undefined ? null : await sessions.find(sessionSecret);
  const formSecret = cookies[formCookieName(secure)];
  const known = [session === null ? undefined : sessionSecret, formSecret].filter((secret) => secret !== undefined && secret !== '');
  const [first, ...others] = known;
  const created = randomBytes(32).toString('base64url');
  return {
    request,
    url: urlOf(request),
    now,
    secure,
    cookies,
    session,
    secrets: first === undefined ? [created] : [first, ...others.filter((secret) => secret !== undefined)],
    newCookie: first === undefined ? { name: formCookieName(secure), value: created } : null,
    isPartial: request.headers['hx-request'] === 'true',
  };
}

/** Creates the context for a route. Members that the route's access doesn't provide throw when they are read. */
export function toContext(visit: Visit, visited: VisitedProject | null, zone: string, signal: AbortSignal): ConsoleContext {
  const { request, session, url, secrets, now, cookies, secure } = visit;
  return {
    get session() {
      return required(session, 'session');
    },
    visitor: session,
    get project() {
      return required(visited, 'project').project;
    },
    get role() {
      return required(visited, 'project').role;
    },
    url,
    params: stringParams(request.params),
    zone,
    csrfToken: csrfTokenOf(secrets[0]),
    sign: (purpose, value) => signText(purpose, value, secrets[0]),
    readSigned: (purpose, text) =>
      text === null ? null : (secrets.map((secret) => readSignedText(purpose, text, secret)).find((value) => value !== null) ?? null),
    now,
    remoteAddress: clientAddress(request),
    userAgent: request.headers['user-agent'] ?? '',
    cookies,
    secure,
    signal,
  };
}

function required<Value>(value: Value | null, name: string): Value {
  if (value === null) throw new Error(`the route has no ${name}`);
  return value;
}

function stringParams(params: Request['params']): Record<string, string> {
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, Array.isArray(value) ? value.join('/') : String(value)]));
}

function urlOf(request: Request): URL {
  const text = originOf(request) + request.originalUrl;
  // PostgreSQL can't store NUL, so a URL with a NUL can't match anything.
  if (!URL.canParse(text) || text.includes('%00')) throw gatewayError('bad_request', { message: 'the URL is invalid' });
  return new URL(text);
}
