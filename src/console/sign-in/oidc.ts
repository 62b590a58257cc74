/**
 * Signs people in with an identity provider, using OpenID Connect's authorization code flow with PKCE, state and nonce.
 *
 * The callback has to match some values from the start of the sign-in. We keep them in a cookie of the browser, so that
 * any process can handle the callback. We fetch the provider's metadata at the first sign-in and keep it for an hour.
 * If a token is signed with a key that we don't know, we fetch the signing keys again.
 */
import * as client from 'openid-client';
import { asString, isObject, parseJson } from '../../core/json/narrow.ts';
import type { Clock } from '../../core/time.ts';
import type { OidcIdentity } from '../../people/sign-in.ts';

export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | null;
  readonly allowedDomains: readonly string[];
}

/** The callback has to match these values, which we keep in a cookie. */
export interface OidcTransaction {
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
  /** Where the person wanted to go before we asked them to sign in. */
  readonly next: string;
}

export interface OidcClient {
  /** Returns the URL of the provider that we have to redirect to. Rejects if we can't reach the provider. */
  begin(settings: OidcSettings, redirectUri: string, next: string): Promise<{ url: string; transaction: OidcTransaction }>;
  /** Checks the callback and the ID token. Rejects if anything doesn't match. */
  complete(settings: OidcSettings, callbackUrl: URL, transaction: OidcTransaction): Promise<OidcIdentity>;
}

const metadataMs = 3_600_000;
const timeoutSeconds = 10;

export function createOidcClient({ clock }: { readonly clock: Clock }): OidcClient {
  let cached: { settings: OidcSettings; fetchedAt: number; configuration: Promise<client.Configuration> } | null = null;

  const configurationOf = (settings: OidcSettings): Promise<client.Configuration> => {
    const now = clock.now();
    // A reload of the configuration creates new settings, so it's enough to compare the references.
    if (cached?.settings === settings && now - cached.fetchedAt < metadataMs) return cached.configuration;
    const entry = { settings, fetchedAt: now, configuration: discover(settings) };
    cached = entry;
    entry.configuration.catch(() => {
      if (cached === entry) cached = null;
    });
    return entry.configuration;
  };

  return {
    async begin(settings, redirectUri, next) {
      const configuration = await configurationOf(settings);
      const transaction = {
        state: client.randomState(),
        nonce: client.randomNonce(),
        codeVerifier: client.randomPKCECodeVerifier(),
        next,
      };
      const url = client.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: 'openid email profile',
        code_challenge: await client.calculatePKCECodeChallenge(transaction.codeVerifier),
        code_challenge_method: 'S256',
        state: transaction.state,
        nonce: transaction.nonce,
      });
      return { url: url.href, transaction };
    },
    async complete(settings, callbackUrl, { state, nonce, codeVerifier }) {
      const configuration = await configurationOf(settings);
      const tokens = await client.authorizationCodeGrant(configuration, callbackUrl, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: codeVerifier,
        idTokenExpected: true,
      });
      const claims = tokens.claims();
      if (!claims) throw new Error('the identity provider returned no ID token');
      // Some providers only return the email address from the userinfo endpoint, and not in the ID token.
      const needsUserInfo = claims.email === undefined && configuration.serverMetadata().userinfo_endpoint !== undefined;
      const profile = needsUserInfo ? await client.fetchUserInfo(configuration, tokens.access_token, claims.sub) : claims;
      return {
        issuer: claims.iss,
        subject: claims.sub,
        verifiedEmail: profile.email_verified === true ? asString(profile.email) : null,
        name: asString(profile.name),
      };
    },
  };
}

export function encodeTransaction(transaction: OidcTransaction): string {
  return Buffer.from(JSON.stringify(transaction)).toString('base64url');
}

/** Returns null for anything that doesn't come from `encodeTransaction`. */
export function decodeTransaction(text: string | undefined): OidcTransaction | null {
  const json = text === undefined ? null : parseJson(Buffer.from(text, 'base64url').toString());
  if (!isObject(json)) return null;
  const [state, nonce, codeVerifier, next] = [json.state, json.nonce, json.codeVerifier, json.next].map(asString);
  return state && nonce && codeVerifier && next ? { state, nonce, codeVerifier, next } : null;
}

async function discover({ issuer, clientId, clientSecret }: OidcSettings): Promise<client.Configuration> {
  const address = new URL(issuer);
  // An issuer with an HTTP URL has to be on this machine. When we parse the settings, we reject all others.
  const allowHttp = address.protocol === 'http:' ? [client.allowInsecureRequests] : [];
  const found = await client.discovery(address, clientId, undefined, client.None(), { execute: allowHttp, timeout: timeoutSeconds });
  if (clientSecret === null) return found;
  const metadata = found.serverMetadata();
  // If the field is missing, the default is `client_secret_basic` (OpenID Connect Discovery, section 3).
  const supportsBasic = metadata.token_endpoint_auth_methods_supported?.includes('client_secret_basic') ?? true;
  const authentication = supportsBasic ? client.ClientSecretBasic(clientSecret) : client.ClientSecretPost(clientSecret);
  const configuration = new client.Configuration(metadata, clientId, undefined, authentication);
  configuration.timeout = timeoutSeconds;
  for (const allow of allowHttp) allow(configuration);
  return configuration;
}
