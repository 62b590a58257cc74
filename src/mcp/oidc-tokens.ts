/**
 * Verifies access tokens (JWT) of the configured OIDC issuer. A token has to be signed for this resource, unexpired,
 * and belong to an active person. `jose` fetches the issuer's keys on first use and caches them.
 */
import { createRemoteJWKSet, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { z } from 'zod';
import { gatewayError } from '../core/errors.ts';
import { parseJsonOrThrow } from '../core/json/parse.ts';
import type { Clock } from '../core/time.ts';
import type { Identity } from '../people/identity.ts';
import type { Person } from '../people/person.ts';
import { toScopes } from '../people/scopes.ts';
import type { Access } from './access.ts';
import { invalidToken } from './invalid-token.ts';

export interface OidcTokenOptions {
  /** Returns null if nobody has this identity, or if the person isn't active. */
  readonly findPerson: (identity: Identity) => Promise<Person | null>;
  readonly clock: Clock;
}

export interface TokenSource {
  readonly issuer: string;
  readonly audience: string;
}

const clockSkewSeconds = 30;
const fetchTimeoutMs = 5_000;
/** Only asymmetric algorithms, because we have no secret in common with the issuer. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'];

const discoverySchema = z.object({ issuer: z.string(), jwks_uri: z.url() });
const claimsSchema = z.object({
  sub: z.string().min(1),
  exp: z.number(),
  email: z.string().optional(),
  email_verified: z.boolean().optional(),
  /** RFC 9068 calls this claim `scope`. Some issuers use `scp` instead, which can be a list. */
  scope: z.string().optional(),
  scp: z.union([z.string(), z.array(z.string())]).optional(),
  client_id: z.string().optional(),
  azp: z.string().optional(),
});

/**
 * Returns a function that verifies tokens. It throws an `OAuthError` for a rejected token, and `keystore_unavailable`
 * if we can't reach the issuer.
 */
export function createOidcTokens({ findPerson, clock }: OidcTokenOptions) {
  let cached: { readonly issuer: string; readonly keys: Promise<JWTVerifyGetKey> } | null = null;
  const keysOf = (issuer: string): Promise<JWTVerifyGetKey> => {
    if (cached?.issuer === issuer) return cached.keys;
    const entry = { issuer, keys: discoverKeys(issuer) };
    cached = entry;
    entry.keys.catch(() => {
      if (cached === entry) cached = null; // Don't cache a failure, so that the next token tries again.
    });
    return entry.keys;
  };

  return async (token: string, source: TokenSource): Promise<Access> => {
    const { issuer } = source;
    const claims = claimsSchema.safeParse(await verify(token, await keysOf(issuer), { ...source, now: clock.now() }));
    if (!claims.success) throw invalidToken('the token must have the claims sub and exp');
    const { sub, exp, email, email_verified: isVerified, scope = '', scp = [], client_id: clientId, azp } = claims.data;
    const verifiedEmail = isVerified === true && email !== undefined ? email.toLowerCase() : null;
    const person = await findPerson({ issuer, subject: sub, verifiedEmail });
    if (person === null) throw invalidToken('the token does not belong to an active person of this gateway');
    const names = [scope, ...(typeof scp === 'string' ? [scp] : scp)].flatMap((text) => text.split(' '));
    const expiresAt = (exp + clockSkewSeconds) * 1_000;
    return { person, scopes: toScopes(names), expiresAt, actor: 'person', client: clientId ?? azp ?? 'oidc' };
  };
}

async function verify(
  token: string,
  keys: JWTVerifyGetKey,
  { issuer, audience, now }: TokenSource & { readonly now: number },
): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, keys, {
      ...{ issuer, audience, algorithms, clockTolerance: clockSkewSeconds },
      currentDate: new Date(now),
    });
    return payload;
  } catch (error) {
    if (error instanceof errors.JWTExpired) throw invalidToken('the token has expired');
    if (error instanceof errors.JWTClaimValidationFailed) throw invalidToken(`the token has the wrong ${error.claim}`);
    if (!(error instanceof errors.JOSEError) || isUnreadable(error)) throw unreachable(error);
    throw invalidToken('the token is not an access token of the identity provider');
  }
}

/** Recognizes errors that mean that the issuer's signing keys couldn't be fetched. */
function isUnreadable(error: errors.JOSEError): boolean {
  return error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid || error.code === errors.JOSEError.code;
}

async function discoverKeys(issuer: string): Promise<JWTVerifyGetKey> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(fetchTimeoutMs) });
    if (!response.ok) throw new Error(`the identity provider responded with status ${response.status}`);
    const document = discoverySchema.parse(parseJsonOrThrow(await response.text()));
    if (document.issuer !== issuer) throw new Error('the identity provider reports a different issuer');
    return createRemoteJWKSet(new URL(document.jwks_uri), { timeoutDuration: fetchTimeoutMs });
  } catch (cause) {
    throw unreachable(cause);
  }
}

function unreachable(cause: unknown): Error {
  return gatewayError('keystore_unavailable', { message: 'the identity provider cannot be reached', cause });
}
