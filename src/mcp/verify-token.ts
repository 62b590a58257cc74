/**
 * Identifies the owner of a token. We accept the gateway's personal tokens and access tokens of the configured OIDC
 * issuer, but never virtual keys.
 */
import type { Access } from './access.ts';
import { invalidToken } from './invalid-token.ts';
import type { TokenSource } from './oidc-tokens.ts';

export interface TokenDeps {
  /** Returns null if the token is unknown, expired or revoked, or if its person is disabled. */
  readonly findPersonalToken: (token: string) => Promise<Access | null>;
  /** Throws an `OAuthError` for a rejected token, and `keystore_unavailable` if we can't reach the issuer. */
  readonly verifyOidcToken: (token: string, source: TokenSource) => Promise<Access>;
}

/** `source` is null if there's no OIDC issuer. Throws an `OAuthError`, which becomes a 401. */
export async function verifyToken(
  { findPersonalToken, verifyOidcToken }: TokenDeps,
  token: string,
  source: TokenSource | null,
): Promise<Access> {
  if (token.startsWith('sk-gw-')) throw invalidToken('virtual keys are not accepted here; use a personal token');
  if (token.startsWith('gwp_')) {
    const access = await findPersonalToken(token);
    if (access === null) throw invalidToken('the personal token is invalid, revoked or expired');
    return access;
  }
  if (source === null) throw invalidToken('the token is not a personal token of this gateway');
  return verifyOidcToken(token, source);
}
