/** A request to the console, with its session and cookies. */
import { randomBytes } from 'node:crypto';
import type { Request } from 'express';
import { clientAddress } from '../../http/client-address.ts';
import { type Cookie, formCookieName, parseCookies, sessionCookieName } from '../../http/cookies.ts';
import type { Role, Session } from '../../people/person.ts';
import type { Project } from '../../projects/projects.ts';
import type { ConsoleContext } from './route.ts';
import { csrfTokenOf, isSecure, originOf } from './same-site.ts';

export interface Visit {
  readonly request: Request;
  /** The URL of the start page if the requested URL is invalid. */
  readonly url: URL;
  readonly isUrlValid: boolean;
  readonly now: number;
  readonly secure: boolean;
  readonly cookies: Readonly<Record<string, string>>;
  readonly session: Session | null;
  /**
   * The secrets from the cookies of the session and of forms, in this order. If there are no such cookies, this is a
   * new secret. We sign forms and notices with the first secret, and accept signatures that were made with any of them.
   */
  readonly secrets: readonly [string, ...string[]];
  /** A cookie with a new secret for CSRF tokens. Null if the visitor already has a secret in a cookie. */
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
  const url = urlOf(request);
  return {
    request,
    url: url ?? new URL('/console', originOf(request)),
    isUrlValid: url !== null,
    now,
    secure,
    cookies,
    session,
    secrets: first === undefined ? [created] : [first, ...others.filter((secret) => secret !== undefined)],
    newCookie: first === undefined ? { name: formCookieName(secure), value: created } : null,
    isPartial: request.headers['hx-request'] === 'true',
  };
}

/**
 * Creates the context of a request. Reading its `session`, `project` or `role` throws if the route's access doesn't
 * guarantee that there is one.
 */
export function toContext(
  visit: Visit,
  {
    visited,
    ...given
  }: Pick<ConsoleContext, 'origin' | 'zone' | 'signal'> & {
    readonly visited: VisitedProject | null;
  },
): ConsoleContext {
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
    ...given,
    csrfToken: csrfTokenOf(secrets[0]),
    now,
    remoteAddress: clientAddress(request),
    userAgent: request.headers['user-agent'] ?? '',
    cookies,
    secure,
  };
}

function required<Value>(value: Value | null, name: string): Value {
  if (value === null) throw new Error(`expected the route to have a ${name}`);
  return value;
}

function stringParams(params: Request['params']): Record<string, string> {
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, Array.isArray(value) ? value.join('/') : String(value)]));
}

function urlOf(request: Request): URL | null {
  const text = originOf(request) + request.originalUrl;
  // URLs with NUL can't match anything, because PostgreSQL can't store NUL.
  return URL.canParse(text) && !text.includes('%00') ? new URL(text) : null;
}
