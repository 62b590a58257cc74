import { OAuthError, OAuthErrorCode } from '@modelcontextprotocol/server';

/** This error becomes a 401 with the given message. */
export function invalidToken(message: string): OAuthError {
  return new OAuthError(OAuthErrorCode.InvalidToken, message);
}
