/** Sends the results of routes: pages, fragments, CSV, downloads, redirects, streams and error pages. */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Response } from 'express';
import { GatewayError } from '../../core/errors.ts';
import { parseJsonOrThrow } from '../../core/json/parse.ts';
import { type Cookie, formatCookie, hostCookieName } from '../../http/cookies.ts';
import { endWithLinger } from '../../http/lingering-close.ts';
import { PlainTextError } from '../../http/plain-text-error.ts';
import { sendChunks } from '../../http/send-response.ts';
import type { Logger } from '../../observability/logger.ts';
import type { Person, Role } from '../../people/person.ts';
import { compressHtml } from './compress-html.ts';
import { sendCsv } from './csv.ts';
import { endUsersPath } from './end-user.ts';
import { describeError, resolveFieldLabels } from './field-labels.ts';
import { notice as renderNotice } from './figures.ts';
import { type Html, html } from './html.ts';
import type { Navigation } from './nav.ts';
import { type Frame, renderDocument } from './page.ts';
import type { ActionResult, PageContent, PageResult, Undo } from './route.ts';
import { csrfTokenOf, readSignedText, safePath, signText } from './same-site.ts';
import { sentence } from './values.ts';
import type { Visit, VisitedProject } from './visit.ts';

interface ResponderDeps {
  readonly navigation: Navigation;
  readonly projectsOf: (person: Person) => Promise<readonly { readonly slug: string; readonly name: string; readonly role: Role }[]>;
  readonly logger: Logger;
}

export interface Responder {
  send(response: Response, result: PageResult | ActionResult, visit: Visit, visited: VisitedProject | null): Promise<void>;
  sendPage(response: Response, page: PageContent, visit: Visit, visited: VisitedProject | null, message?: Frame['notice']): Promise<void>;
  sendError(response: Response, error: unknown, visit: Visit, visited: VisitedProject | null): Promise<void>;
}

const noticeSeconds = 60;
const lastProjectCookie = 'gateway_project';

export function createResponder({ navigation, projectsOf, logger }: ResponderDeps): Responder {
  const frameOf = async (visit: Visit, visited: VisitedProject | null, message: Frame['notice']): Promise<Frame> => {
    const { session, url, secrets, request } = visit;
    const csrfToken = csrfTokenOf(secrets[0]);
    // The browser can't return to a POST, so return to the account page instead.
    const path = request.method === 'GET' ? url.pathname + url.search : '/console/account';
    const common = { csrfToken, path, notice: message };
    if (session === null) return { ...common, person: null, theme: null, nav: [], project: null, projects: [] };
    const known = await projectsOf(session.person);
    const project = visited?.project ?? known.find(({ slug }) => slug === lastProject(visit)) ?? known[0] ?? null;
    const role = visited?.role ?? known.find(({ slug }) => slug === project?.slug)?.role ?? null;
    const nav = navigation.groupsFor({ path: url.pathname, slug: project?.slug ?? null, role, isAdmin: session.person.isAdmin });
    const prefix = `/console/p/${visited?.project.slug}`;
    const page = visited !== null && url.pathname.startsWith(`${prefix}/`) ? url.pathname.slice(prefix.length) : null;
    // The query of a POST has nothing to do with the page that people see, so don't add it to the links to other
    // projects.
    const query = request.method === 'GET' ? url.searchParams : new URLSearchParams();
    const pages: Readonly<Record<Role, string>> = {
      member: navigation.samePage(page, query, 'member'),
      owner: navigation.samePage(page, query, 'owner'),
    };
    const projects = known.map(({ slug, name, role }) => ({ slug, name, href: `/console/p/${slug}${pages[role]}` }));
    return { ...common, person: session.person, theme: session.preferences.theme, nav, project, projects };
  };

  const sendPage: Responder['sendPage'] = async (response, page, visit, visited, message) => {
    const shown = message ?? takeNotice(response, visit);
    const frame = await frameOf(visit, visited, shown);
    const text = String(await renderDocument(page, frame));
    if (visited && lastProject(visit) !== visited.project.slug)
      setCookies(response, [{ name: hostCookieName(lastProjectCookie, visit.secure), value: visited.project.slug }], visit);
    setCookies(response, page.setCookies, visit);
    await sendHtml(response, page.status ?? 200, text);
  };

  return {
    sendPage,
    async send(response, result, visit, visited) {
      switch (result.kind) {
        case 'page':
          return sendPage(response, 'page' in result ? result.page : result, visit, visited);
        case 'fragment':
          return sendHtml(response, 200, String(await result.content));
        case 'redirect': {
          const { to, notice } = result;
          if (notice !== undefined) setSigned(response, visit, 'notice', notice);
          if ('undo' in result && result.undo !== undefined) setSigned(response, visit, 'undo', JSON.stringify(result.undo));
          setCookies(response, result.setCookies, visit);
          response.writeHead(303, { location: 'external' in result && result.external ? to : safePath(to) });
          return endWithLinger(response, Buffer.alloc(0));
        }
        case 'csv':
          startDownload(response, 'text/csv; charset=utf-8', result.fileName);
          return response.req.method === 'HEAD' ? void response.end() : sendCsv(response, result);
        case 'download':
          startDownload(response, result.contentType, result.fileName);
          return void response.end(result.body);
        case 'stream':
          // Without this header, nginx buffers the stream.
          response.setHeader('x-accel-buffering', 'no');
          if (result.fileName !== undefined) {
            startDownload(response, result.contentType, result.fileName);
            response.flushHeaders();
            return sendChunks(response, result.chunks);
          }
          response.writeHead(200, { 'content-type': result.contentType });
          response.flushHeaders();
          return pipeline(Readable.from(result.chunks, { objectMode: true, highWaterMark: 1 }), response);
      }
    },
    async sendError(response, error, visit, visited) {
      const { status, title, text } = toErrorPage(error);
      // Anybody can send us more forms than we have memory for, so don't let them fill the log.
      if (status >= 500 && !(error instanceof GatewayError && error.code === 'budget_unavailable'))
        logger.error(
          { err: error instanceof GatewayError ? (error.cause ?? error) : error, path: loggedPath(visit) },
          'console request failed',
        );
      if (response.headersSent || response.destroyed) {
        response.destroy();
        return;
      }
      if (visit.isPartial) {
        await sendHtml(response, status, String(await renderNotice(text, 'bad', title)));
        return;
      }
      await sendPage(response, { kind: 'page', status, title, content: errorContent(text) }, visit, visited);
    },
  };
}

/** Masks the subject in the path of an end user's page. If it got into the logs, we couldn't erase it from there. */
function loggedPath({ url: { pathname } }: Visit): string {
  const [before = '', subject] = pathname.split(`${endUsersPath}/`, 2);
  return subject === undefined ? pathname : `${before}${endUsersPath}/:subject`;
}

/**
 * Returns the notice after a redirect, maybe with an undo button. It's stored in cookies, which are deleted here so
 * that people see it only once.
 */
function takeNotice(response: Response, visit: Visit): Frame['notice'] {
  const text = takeSigned(response, visit, 'notice');
  const undo = takeSigned(response, visit, 'undo');
  if (text === null) return null;
  return { text, tone: 'good', ...(undo !== null && { undo: parseJsonOrThrow(undo) as Undo }) };
}

function setSigned(response: Response, visit: Visit, purpose: 'notice' | 'undo', text: string): void {
  const name = hostCookieName(`gateway_${purpose}`, visit.secure);
  setCookies(response, [{ name, value: signText(purpose, text, visit.secrets[0]), maxAgeSeconds: noticeSeconds }], visit);
}

/** Returns null if the cookie is missing or wasn't signed by this session. */
function takeSigned(response: Response, visit: Visit, purpose: 'notice' | 'undo'): string | null {
  const name = hostCookieName(`gateway_${purpose}`, visit.secure);
  const value = visit.cookies[name];
  if (value === undefined) return null;
  setCookies(response, [{ name, value: '', maxAgeSeconds: 0 }], visit);
  return visit.secrets.map((secret) => readSignedText(purpose, value, secret)).find((found) => found !== null) ?? null;
}

/** Returns the slug of the project that the browser visited last. */
export function lastProject({ cookies, secure }: Pick<Visit, 'cookies' | 'secure'>): string | undefined {
  return cookies[hostCookieName(lastProjectCookie, secure)];
}

export function setCookies(response: Response, cookies: readonly Cookie[] | undefined, { secure }: Visit): void {
  for (const cookie of cookies ?? []) response.appendHeader('set-cookie', formatCookie(cookie, secure));
}

async function sendHtml(response: Response, status: number, text: string): Promise<void> {
  const plain = Buffer.from(resolveFieldLabels(text));
  const compressed = response.req.acceptsEncodings('gzip') ? await compressHtml(plain) : null;
  const body = compressed ?? plain;
  response.writeHead(status, {
    ...{ 'content-type': 'text/html; charset=utf-8', 'content-length': body.length, vary: 'accept-encoding' },
    ...(compressed !== null && { 'content-encoding': 'gzip' }),
  });
  endWithLinger(response, body);
}

function startDownload(response: Response, contentType: string, fileName: string): void {
  const name = fileName.replace(/[^\w.-]+/g, '-');
  response.writeHead(200, { 'content-type': contentType, 'content-disposition': `attachment; filename="${name}"` });
}

function errorContent(text: Html | string): Html {
  return html`<div class="empty"><p>${text}</p><p><a class="button" href="/console">Back to the start page</a></p></div>`;
}

function toErrorPage(error: unknown): { status: number; title: string; text: Html | string } {
  if (error instanceof PlainTextError) return { status: error.status, title: 'Request failed', text: sentence(error.message) };
  if (!(error instanceof GatewayError))
    return { status: 500, title: 'Something went wrong', text: 'The log of the gateway has the details.' };
  const { status, code } = error;
  if (code === 'not_found') return { status, title: 'Not found', text: 'This page does not exist, or you do not have access to it.' };
  return { status, title: status === 403 ? 'Not allowed' : 'Request failed', text: describeError(error) };
}
