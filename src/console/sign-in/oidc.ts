/**
 * Signs people in with OpenID Connect's authorization code flow, with PKCE, state and nonce. The values that the
 * callback has to match are in a cookie, so that any process can handle it. The provider's metadata is fetched at the
 * first sign-in and cached for an hour. If a token is signed with an unknown key, the signing keys are fetched again.
 */
import * as client from 'openid-client';
import { asString, isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { Clock } from '../../core/time.ts';
import type { OidcIdentity } from '../../people/sign-in.ts';

export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | null;
  readonly allowedDomains: readonly string[];
}

/** Values that the callback has to match. They're kept in a cookie. */
export interface OidcTransaction {
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
  /** Where to redirect people after they've signed in. */
  readonly next: string;
}

export type OidcClient = ReturnType<typeof createOidcClient>;

const metadataMs = 3_600_000;
const timeoutSeconds = 10;

export function createOidcClient({ clock }: { readonly clock: Clock }) {
  let cached: { settings: OidcSettings; fetchedAt: number; configuration: Promise<client.Configuration> } | null = null;

  const configurationOf = (settings: OidcSettings): Promise<client.Configuration> => {
    const now = clock.now();
    // A configuration reload creates a new settings object, so it's enough to compare references to notice a change.
    if (cached?.settings === settings && now - cached.fetchedAt < metadataMs) return cached.configuration;
    const entry = { settings, fetchedAt: now, configuration: discover(settings) };
    cached = entry;
    entry.configuration.catch(() => {
      if (cached === entry) cached = null;
    });
    return entry.configuration;
  };

  return {
    /** Returns the provider's URL to redirect to. Rejects if the provider can't be reached. */
    async begin(settings: OidcSettings, redirectUri: string, next: string) {
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
    /** Verifies the callback and the ID token. Rejects if either of them is invalid. */
    async complete(settings: OidcSettings, callbackUrl: URL, { state, nonce, codeVerifier }: OidcTransaction): Promise<OidcIdentity> {
      const configuration = await configurationOf(settings);
      const tokens = await client.authorizationCodeGrant(configuration, callbackUrl, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: codeVerifier,
        idTokenExpected: true,
      });
      const claims = tokens.claims();
      if (!claims) throw new Error('the identity provider returned no ID token');
      // Some providers only return the email address from the userinfo endpoint.
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

/** Returns null if the cookie doesn't contain a valid transaction. */
export function decodeTransaction(text: string | undefined): OidcTransaction | null {
  const json = text === undefined ? null : parseJson(Buffer.from(text, 'base64url').toString());
  if (!isObject(json)) return null;
  const [state, nonce, codeVerifier, next] = [json.state, json.nonce, json.codeVerifier, json.next].map(asString);
  return state && nonce && codeVerifier && next ? { state, nonce, codeVerifier, next } : null;
}

async function discover({ issuer, clientId, clientSecret }: OidcSettings): Promise<client.Configuration> {
  const address = new URL(issuer);
  // An HTTP issuer has to be on this machine. All others are rejected when the settings are parsed.
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
