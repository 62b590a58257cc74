/**
 * Finds the person of a token: a personal access token of this gateway, or an access token of the configured OIDC issuer. A virtual key is
 * never a person's sign-in.
 */
import { OAuthError, OAuthErrorCode } from '@modelcontextprotocol/server';
import type { Access } from './access.ts';

export interface TokenDeps {
  /** Null when the token is unknown, revoked or expired, or its person is disabled. */
  readonly findPersonalToken: (token: string) => Promise<Access | null>;
  /** Null without an OIDC issuer. Throws an `OAuthError`. */
  readonly verifyOidcToken: ((token: string, resource: string) => Promise<Access>) | null;
}

/** Throws an `OAuthError`, which becomes 401. */
export async function verifyToken({ findPersonalToken, verifyOidcToken }: TokenDeps, token: string, resource: string): Promise<Access> {
  if (token.startsWith('sk-gw-')) throw invalidToken('a virtual key is not a sign-in: use a personal access token');
  if (token.startsWith('gwp_')) {
    const access = await findPersonalToken(token);
    if (access === null) throw invalidToken('the personal access token is invalid, revoked or expired');
    return access;
  }
  if (verifyOidcToken === null) throw invalidToken('the token is not a personal access token of this gateway');
  return verifyOidcToken(token, resource);
}

export function invalidToken(message: string): OAuthError {
  return new OAuthError(OAuthErrorCode.InvalidToken, message);
}
