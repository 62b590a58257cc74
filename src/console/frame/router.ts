/**
 * Serves the console's routes. Finds the session, checks the role and the CSRF rules, writes audit rows and renders the
 * layout, so that pages don't have to.
 */
import express, { type ErrorRequestHandler, type Request, type RequestHandler, type Response, type Router } from 'express';
import { type GatewayError, gatewayError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import { ClientDisconnectedError, type KeyBodies } from '../../http/body.ts';
import type { BodyShares } from '../../http/body-shares.ts';
import { clientAddress } from '../../http/client-address.ts';
import { readForm } from '../../http/form-body.ts';
import type { Logger } from '../../observability/logger.ts';
import { networkOf } from '../../people/attempt-limit.ts';
import type { Person, Role, Session } from '../../people/person.ts';
import type { ChangeRecorder } from '../../people/record-change.ts';
import type { Project } from '../../projects/projects.ts';
import { runSubmitted } from './action.ts';
import { assetPath, findAsset } from './assets.ts';
import { html } from './html.ts';
import { keptFormLimits, keptFormPage } from './kept-form.ts';
import { createNavigation, startPage } from './nav.ts';
import { projectPath } from './project-path.ts';
import { createResponder, lastProject, type Responder, setCookies } from './respond.ts';
import { type Access, type ConsoleRoute, get, type PageRoute } from './route.ts';
import { isSameSite, safePath } from './same-site.ts';
import { createVisit, toContext, type Visit, type VisitedProject } from './visit.ts';

export interface ConsoleRouterOptions {
  readonly routes: readonly ConsoleRoute[];
  readonly sessions: { find(secret: string): Promise<Session | null> };
  readonly members: {
    roleOf(personId: string, projectId: string): Promise<Role | null>;
    projectsOf(person: Person): Promise<readonly { readonly slug: string; readonly name: string; readonly role: Role }[]>;
  };
  readonly audit: ChangeRecorder['audit'];
  readonly findProject: (slug: string) => Promise<Project | null>;
  readonly zoneOf: (project: Project) => string;
  readonly publicUrl: () => string | null;
  readonly bodyShares: BodyShares;
  readonly clock: Clock;
  readonly logger: Logger;
}

const signInPath = '/console/sign-in';
const securityHeaders: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

export function createConsoleRouter(options: ConsoleRouterOptions): Router {
  const { routes, members, logger } = options;
  const navigation = createNavigation(routes);
  const responder = createResponder({ navigation, projectsOf: members.projectsOf, logger });
  const router = express.Router({ caseSensitive: true });
  router.use('/console', ({ method }, _response, next) => {
    // Reject OPTIONS, because Express would respond with the allowed methods.
    if (method === 'OPTIONS') throw gatewayError('not_found');
    next();
  });
  router.get(`${assetPath}:name`, sendAsset);
  for (const route of inMatchingOrder([...startRoutes(members), ...routes])) {
    const handler = createHandler(route, options, responder);
    if (route.method === 'get') router.get(pathOf(route), handler);
    else router.post(pathOf(route), handler);
  }
  const unknownPage = get('', 'person', () => Promise.reject(gatewayError('not_found')));
  router.use('/console', createHandler(unknownPage, options, responder));
  const invalidPage = get('', 'anyone', () => Promise.reject(invalidUrl()));
  router.use(whenUndecodable(createHandler(invalidPage, options, responder)));
  return router;
}

function invalidUrl(): GatewayError {
  return gatewayError('bad_request', { message: 'the URL is invalid' });
}

/** Handles paths that Express can't decode, e.g. `/console/p/%ff`. */
function whenUndecodable(handler: RequestHandler): ErrorRequestHandler {
  return (error, request, response, next) => (error instanceof URIError ? handler(request, response, next) : next(error));
}

/** Redirects `/console` and `/console/p/{slug}` to the first page of a project. */
function startRoutes({ projectsOf }: ConsoleRouterOptions['members']): PageRoute[] {
  return [
    get('', 'person', async (context) => {
      const { person } = context.session;
      const projects = await projectsOf(person);
      const project = projects.find(({ slug }) => slug === lastProject(context)) ?? projects[0];
      if (project) return { kind: 'redirect', to: projectPath({ project }, startPage) };
      const text = person.isAdmin
        ? 'Create your first project to get started.'
        : 'Ask a project owner or the operator of this gateway to add you as a member.';
      return { kind: 'page', title: 'No project yet', content: html`<div class="empty"><p>${text}</p></div>` };
    }),
    get('', 'member', async (context) => ({ kind: 'redirect', to: projectPath(context, startPage) })),
  ];
}

function createHandler(route: ConsoleRoute, options: ConsoleRouterOptions, responder: Responder): RequestHandler {
  const { sessions, bodyShares, clock } = options;
  return async (request, response) => {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value);
    const now = clock.now();
    let visit = await createVisit(request, { sessions: { find: async () => null }, now });
    let visited: VisitedProject | null = null;
    let body = bodyShares.ofVisitor(networkOf(clientAddress(request)));
    try {
      if (route.method === 'post' && !isSameSite(request))
        throw gatewayError('forbidden', {
          message: 'the form was submitted from another site; open it in the console and submit it there',
        });
      visit = await createVisit(request, { sessions, now });
      if (visit.session) body = bodyShares.ofAccount(visit.session.person.id);
      if (visit.newCookie && route.access === 'anyone' && route.method === 'get') setCookies(response, [visit.newCookie], visit);
      if (route.access !== 'anyone' && visit.session === null) return await askToSignIn(route, { response, visit, body }, responder);
      if (!visit.isUrlValid) throw invalidUrl();
      visited = await authorize(route.access, visit, options);
      const zone = visit.session?.preferences.timeZone ?? (visited ? options.zoneOf(visited.project) : 'UTC');
      const origin = options.publicUrl() ?? visit.url.origin;
      const context = toContext(visit, { visited, zone, origin, signal: abortedByClient(response) });
      if (route.method === 'get') await responder.send(response, await route.handle(context), visit, visited);
      else {
        const authorizeAgain = route.access === 'anyone' ? null : () => assertUnchanged(route.access, visit, visited, options);
        await runSubmitted(route, { context, visit, visited, response, body, authorizeAgain }, options, responder);
      }
    } catch (error) {
      if (error instanceof ClientDisconnectedError || response.destroyed) return;
      await responder.sendError(response, error, visit, visited);
    } finally {
      body.releaseAll();
    }
  };
}

/**
 * Throws `not_found` if the person has no role in the project, and `forbidden` if a member opens a route for owners.
 */
async function authorize(access: Access, { session, request }: Visit, options: ConsoleRouterOptions): Promise<VisitedProject | null> {
  switch (access) {
    case 'anyone':
    case 'person':
      return null;
    case 'admin':
      if (session?.person.isAdmin) return null;
      throw gatewayError('not_found');
    case 'member':
    case 'owner': {
      const project = await options.findProject(String(request.params.project));
      const role = project && session ? await options.members.roleOf(session.person.id, project.id) : null;
      if (!project || role === null) throw gatewayError('not_found');
      if (access === 'owner' && role !== 'owner')
        throw gatewayError('forbidden', { message: 'only project owners are allowed to do this' });
      return { project, role };
    }
    default: {
      const unknown: never = access;
      throw new Error(`unknown access level ${unknown}`);
    }
  }
}

/** Throws if the session has ended since the form began to arrive, or if the person has another role by now. */
async function assertUnchanged(access: Access, visit: Visit, visited: VisitedProject | null, options: ConsoleRouterOptions): Promise<void> {
  const now = await createVisit(visit.request, { sessions: options.sessions, now: options.clock.now() });
  if (now.session === null) throw sessionEnded();
  const role = (await authorize(access, now, options))?.role;
  if (role !== visited?.role) throw gatewayError('forbidden', { message: 'your role in the project has changed; reload the page' });
}

/**
 * Shows the submitted input, so that people don't lose it when they have to sign in. Without input, redirects to the
 * sign-in page. If a script sent the form, returns an error because the input is still on the page.
 */
async function askToSignIn(
  route: ConsoleRoute,
  { response, visit, body }: { readonly response: Response; readonly visit: Visit; readonly body: KeyBodies },
  responder: Responder,
): Promise<void> {
  if (route.method === 'post' && visit.isPartial) throw sessionEnded();
  const form = route.method === 'post' ? await readForm(visit.request, keptFormLimits, body, null).catch(() => null) : null;
  const page = form && keptFormPage(form, visit);
  if (!page) return redirectToSignIn(response, visit);
  if (visit.newCookie) setCookies(response, [visit.newCookie], visit);
  await responder.sendPage(response, page, visit, null);
}

function sessionEnded(): GatewayError {
  return gatewayError('forbidden', {
    status: 401,
    message: 'your session has ended; submit the form again to sign in, and your input is kept',
  });
}

/**
 * Redirects to the sign-in page. After signing in, people return to this page, or to the page with the form that they
 * had submitted.
 */
function redirectToSignIn(response: Response, { request, url, isPartial }: Visit): void {
  const shown = isPartial ? request.headers['hx-current-url'] : request.method === 'POST' ? request.headers.referer : url.href;
  const page = typeof shown === 'string' && URL.canParse(shown) ? new URL(shown) : null;
  const next = safePath(page && page.host === url.host ? page.pathname + page.search : null);
  const to = `${signInPath}?next=${encodeURIComponent(next)}`;
  response.writeHead(isPartial ? 401 : 303, isPartial ? { 'hx-redirect': to } : { location: to });
  response.end();
}

function abortedByClient(response: Response): AbortSignal {
  const controller = new AbortController();
  response.once('close', () => response.writableFinished || controller.abort());
  return controller.signal;
}

function sendAsset(request: Request, response: Response): void {
  const asset = findAsset(request.path);
  if (!asset) throw gatewayError('not_found');
  const encoding = (['br', 'gzip'] as const).find((name) => request.acceptsEncodings(name)) ?? null;
  const body = asset.encode(encoding);
  response.writeHead(200, {
    'content-type': asset.contentType,
    'content-length': body.length,
    'cache-control': 'public, max-age=31536000, immutable',
    vary: 'accept-encoding',
    'x-content-type-options': 'nosniff',
    ...(encoding && { 'content-encoding': encoding }),
  });
  response.end(body);
}

function pathOf({ access, path }: ConsoleRoute): string {
  if (access === 'anyone') return path;
  return access === 'member' || access === 'owner' ? `/console/p/:project${path}` : `/console${path}`;
}

/**
 * Express uses the first matching route, so sort routes with fewer parameters first. Otherwise `/calls/:id` would match
 * `/calls/live`. The route of a CSV comes before the route of its page, because the last parameter of the page would
 * match the suffix as well.
 */
function inMatchingOrder(routes: readonly ConsoleRoute[]): ConsoleRoute[] {
  const parametersOf = ({ path }: ConsoleRoute) => path.split('/:').length + (path.endsWith('.csv') ? -0.5 : 0);
  return routes.toSorted((left, right) => parametersOf(left) - parametersOf(right));
}
