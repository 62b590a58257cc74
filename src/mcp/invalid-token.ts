import { OAuthError, OAuthErrorCode } from '@modelcontextprotocol/server';

/** The endpoint turns this error into a 401. */
export function invalidToken(message: string): OAuthError {
  return new OAuthError(OAuthErrorCode.InvalidToken, message);
}
