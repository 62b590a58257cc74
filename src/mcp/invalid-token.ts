import { OAuthError, OAuthErrorCode } from '@modelcontextprotocol/server';

/** An error that becomes 401 with the message. */
export function invalidToken(message: string): OAuthError {
  return new OAuthError(OAuthErrorCode.InvalidToken, message);
}
