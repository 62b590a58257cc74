import { OAuthError, OAuthErrorCode } from '@modelcontextprotocol/server';

/** Returns an error that becomes a 401 with this message. */
export function invalidToken(message: string): OAuthError {
  return new OAuthError(OAuthErrorCode.InvalidToken, message);
}
