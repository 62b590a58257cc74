/**
 * Finds the person of a token: a personal token of this gateway, or an access token of the configured OIDC issuer. A virtual key is
 * never a person's sign-in.
 */
import type { Access } from './access.ts';
import { invalidToken } from './invalid-token.ts';
import type { TokenSource } from './oidc-tokens.ts';

export interface TokenDeps {
  /** Null when the token is unknown, revoked or expired, or its person is disabled. */
  readonly findPersonalToken: (token: string) => Promise<Access | null>;
  /** Throws an `OAuthError`, and `keystore_unavailable` when the issuer cannot be reached. */
  readonly verifyOidcToken: (token: string, source: TokenSource) => Promise<Access>;
}

/** `source`: null without an OIDC issuer. Throws an `OAuthError`, which becomes 401. */
export async function verifyToken(
  { findPersonalToken, verifyOidcToken }: TokenDeps,
  token: string,
  source: TokenSource | null,
): Promise<Access> {
  if (token.startsWith('sk-gw-')) throw invalidToken('a virtual key is not a sign-in: use a personal token');
  if (token.startsWith('gwp_')) {
    const access = await findPersonalToken(token);
    if (access === null) throw invalidToken('the personal token is invalid, revoked or expired');
    return access;
  }
  if (source === null) throw invalidToken('the token is not a personal token of this gateway');
  return verifyOidcToken(token, source);
}
