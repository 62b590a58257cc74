/**
 * Signs people in with the identity provider, by redirecting to the provider and handling its callback.
 */

import { gatewayError } from '../../core/errors.ts';
import { hostCookieName } from '../../http/cookies.ts';
import type { Logger } from '../../observability/logger.ts';
import type { People } from '../../people/people.ts';
import type { OidcIdentity } from '../../people/sign-in.ts';
import { type ConsoleRoute, get, type PageContent, type PageRoute } from '../frame/route.ts';
import { safePath } from '../frame/same-site.ts';
import { decodeTransaction, encodeTransaction, type OidcClient, type OidcSettings } from './oidc.ts';
import { failure, oidcPath } from './pages.ts';
import type { StartSession } from './start-session.ts';

export interface OidcRouteDeps {
  readonly people: Pick<People, 'signIn'>;
  /** Null if no identity provider is configured. */
  readonly oidc: () => { readonly settings: OidcSettings; readonly publicUrl: string } | null;
  readonly oidcClient: OidcClient;
  readonly logger: Pick<Logger, 'warn'>;
}

const transactionSeconds = 600;
const callbackPath = `${oidcPath}/callback`;

export function createOidcRoutes(deps: OidcRouteDeps, startSession: StartSession): readonly ConsoleRoute[] {
  const { people, oidc, oidcClient, logger } = deps;
  const requireOidc = () => {
    const configured = oidc();
    if (!configured) throw gatewayError('not_found');
    return configured;
  };
  const begin: PageRoute = get(oidcPath, 'anyone', async ({ url, secure }) => {
    const { settings, publicUrl } = requireOidc();
    const next = safePath(url.searchParams.get('next'));
    const started = await oidcClient.begin(settings, publicUrl + callbackPath, next).catch((err: unknown) => {
      logger.warn({ err }, 'identity provider unavailable');
      return null;
    });
    if (!started) return failure(502, 'The identity provider does not respond', 'Try again in a moment, or sign in with a password.');
    const value = encodeTransaction(started.transaction);
    const cookie = { name: hostCookieName('gateway_oidc', secure), value, maxAgeSeconds: transactionSeconds };
    return { kind: 'redirect', to: started.url, external: true, setCookies: [cookie] };
  });
  const callback: PageRoute = get(callbackPath, 'anyone', async (context) => {
    const { settings, publicUrl } = requireOidc();
    const cookie = hostCookieName('gateway_oidc', context.secure);
    const end = [{ name: cookie, value: '', maxAgeSeconds: 0 }];
    const refuse = (status: number, title: string, text: string): PageContent => ({ ...failure(status, title, text), setCookies: end });
    const transaction = decodeTransaction(context.cookies[cookie]);
    if (!transaction)
      return refuse(400, 'The sign-in has expired', 'You did not complete it within ten minutes, or you started it in another browser.');
    const callbackUrl = new URL(callbackPath + context.url.search, publicUrl);
    const identity = await oidcClient.complete(settings, callbackUrl, transaction).catch((err: unknown) => {
      logger.warn({ err }, 'sign-in with identity provider failed');
      return null;
    });
    if (!identity) return refuse(400, 'The sign-in failed', 'The identity provider refused it, or its response was not valid.');
    const result = await people.signIn.withOidc(identity, settings.allowedDomains);
    if (result.kind !== 'ok') return refuse(403, 'You have no access', describeRefusal(result.kind, identity));
    const cookies = await startSession(context, result.person, 'oidc', null);
    return { kind: 'redirect', to: safePath(transaction.next), setCookies: [...cookies, ...end] };
  });
  return [begin, callback];
}

function describeRefusal(kind: 'refused' | 'disabled', { verifiedEmail: email }: OidcIdentity): string {
  // The address doesn't matter here. In particular, a disabled person doesn't get access by verifying it.
  if (kind === 'disabled') return 'This gateway does not accept your account. Ask its operator for access.';
  if (email !== null) return `This gateway does not accept ${email}. Ask its operator to add you.`;
  return 'The identity provider did not confirm your e-mail address. If you can, verify it there and sign in again; otherwise ask the operator of this gateway for a sign-in link.';
}
