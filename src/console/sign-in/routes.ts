/** Signs people in with a password, and signs them out again. The page never reveals which accounts exist. */

import { sessionCookieName } from '../../http/cookies.ts';
import type { Audit } from '../../people/audit.ts';
import type { People } from '../../people/people.ts';
import { html } from '../frame/html.ts';
import { signedInPath } from '../frame/kept-form.ts';
import { type ActionRoute, type ConsoleContext, type ConsoleRoute, get, type PageRoute, post } from '../frame/route.ts';
import { safePath } from '../frame/same-site.ts';
import { createLinkRoutes } from './link-routes.ts';
import { createOidcRoutes, type OidcRouteDeps } from './oidc-routes.ts';
import { signInPath, signInView } from './pages.ts';
import { createSessionStarter } from './start-session.ts';

export interface SignInDeps extends OidcRouteDeps {
  readonly people: People;
  readonly audit: Pick<Audit, 'begin' | 'finish'>;
}

export function createSignInRoutes(deps: SignInDeps): readonly ConsoleRoute[] {
  const { people, oidc } = deps;
  const startSession = createSessionStarter(people.sessions, deps.audit);

  const view = async (context: ConsoleContext, options: { next: string; email?: string; error?: string; status?: number }) =>
    signInView(context, {
      ...options,
      provider: oidc()?.settings.issuer ?? null,
      // On a fresh installation without accounts, the page explains how to create one.
      nobodyExists: await people.accounts.isEmpty(),
    });

  const page: PageRoute = get(signInPath, 'anyone', async (context) => {
    const next = safePath(context.url.searchParams.get('next'));
    return context.visitor ? { kind: 'redirect', to: next } : view(context, { next });
  });
  // The router can't audit this action, because nobody has signed in yet. `startSession` writes the audit row.
  const submit: ActionRoute = post(signInPath, { access: 'anyone', action: null }, async (context, form) => {
    const next = safePath(form.get('next'));
    const [email, password] = [form.get('email') ?? '', form.get('password') ?? ''];
    const result = await people.signIn.withPassword({ email, password, address: context.remoteAddress });
    if (result.kind === 'ok') {
      return { kind: 'redirect', to: next, setCookies: await startSession(context, result.person, 'password', result.passwordHash) };
    }
    const failure =
      result.kind === 'refused'
        ? { status: 401, error: 'The e-mail address or the password is wrong.' }
        : {
            status: 429,
            error: `Too many failed attempts. Try again in ${Math.ceil((result.until - context.now) / 60_000)} minutes, or use a sign-in link.`,
          };
    return { kind: 'page', page: await view(context, { next, email, ...failure }) };
  });
  const signedIn: PageRoute = get(signedInPath, 'person', async () => ({
    kind: 'page',
    title: 'You are signed in',
    content: html`<p class="lead">You can close this tab. Go back to the tab with your form and send it again there.</p>`,
  }));
  const signOut: ActionRoute = post('/sign-out', { access: 'person', action: 'session.end' }, async ({ cookies, secure }) => {
    const name = sessionCookieName(secure);
    await people.sessions.end(cookies[name] ?? '');
    return { kind: 'redirect', to: signInPath, setCookies: [{ name, value: '', maxAgeSeconds: 0 }] };
  });
  return [page, submit, signedIn, signOut, ...createLinkRoutes(people, startSession), ...createOidcRoutes(deps, startSession)];
}
