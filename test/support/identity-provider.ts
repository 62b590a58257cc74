/**
 * Runs a real OpenID Connect provider (`oidc-provider`) on the loopback interface, with a helper that walks through its
 * login and consent pages.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import Provider from 'oidc-provider';
import { scopes } from '../../src/people/scopes.ts';

export interface IdentityProvider {
  readonly issuer: string;
  /** The claims of each person, such as `email_verified`, by the name they log in with. */
  readonly people: Map<string, Readonly<Record<string, unknown>>>;
  /** Signs in on the provider's pages and consents. Returns the address to which the provider redirects. */
  signIn(authorizationUrl: string, login: string): Promise<URL>;
  /** Signs claims with the provider's key. */
  sign(claims: Readonly<Record<string, unknown>>): Promise<string>;
  close(): Promise<void>;
}

export async function startIdentityProvider(client: { id: string; secret: string; redirectUri: string }): Promise<IdentityProvider> {
  const people: IdentityProvider['people'] = new Map();
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: 'test', alg: 'RS256', use: 'sig' }] },
    // The access tokens are JWTs. A client can ask for any API.
    features: {
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, audience: string) => ({ audience, scope: scopes.join(' '), accessTokenFormat: 'jwt' }),
      },
    },
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        redirect_uris: [client.redirectUri],
        grant_types: ['authorization_code'],
        response_types: ['code'],
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    pkce: { required: () => true },
    async findAccount(_context, accountId) {
      return { accountId, claims: async () => ({ sub: accountId, ...people.get(accountId) }) };
    },
  });
  server.on('request', provider.callback());
  return {
    issuer,
    people,
    sign: (claims) => new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'test' }).sign(privateKey),
    async signIn(authorizationUrl, login) {
      const browser = createBrowser();
      let response = await browser.get(authorizationUrl);
      // The login page is followed by the consent page.
      for (const form of [{ prompt: 'login', login, password: 'any' }, { prompt: 'consent' }]) {
        response = await browser.post(response.url, form);
        if (response.external) return new URL(response.external);
      }
      throw new Error('the provider did not redirect back');
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };

  /** Creates a client that keeps cookies, and follows redirects as long as they stay at the provider. */
  function createBrowser() {
    const cookies = new Map<string, string>();
    const send = async (url: string, init: RequestInit): Promise<{ url: string; external: string | null }> => {
      const headers = { ...init.headers, cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') };
      const response = await fetch(url, { ...init, headers, redirect: 'manual' });
      await response.arrayBuffer();
      for (const header of response.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(header) ?? [];
        if (value === '') cookies.delete(name);
        else cookies.set(name, value);
      }
      const location = response.headers.get('location');
      if (location === null) return { url, external: null };
      const next = new URL(location, url);
      return next.origin === issuer ? send(next.href, {}) : { url, external: next.href };
    };
    return {
      get: (url: string) => send(url, {}),
      post: (url: string, form: Record<string, string>) => send(url, { method: 'POST', body: new URLSearchParams(form) }),
    };
  }
}
