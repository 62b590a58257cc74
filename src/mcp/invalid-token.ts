import { OAuthError, OAuthErrorCode } from '@modelcontextprotocol/server';

/** Creates the error for a token that we reject. The endpoint responds with a 401. */
export function invalidToken(message: string): OAuthError {
  return new OAuthError(OAuthErrorCode.InvalidToken, message);
}
