/** Describes errors of the clouds' libraries for logs and `/readyz`. They can contain secrets, which we leave out. */
import { errorSummary } from '../../core/error-messages.ts';
import { asString, isObject } from '../../core/json/narrow.ts';
import { stripSecrets } from '../strip-secrets.ts';

const maxLength = 300;

export function describeIdentityError(error: unknown): string {
  // Don't use the message of `JSON.parse`, because it quotes the file.
  if (error instanceof SyntaxError) return 'a file or a response is not valid JSON';
  const message = readMessage(error);
  // Return a fixed message, because the SDK quotes the command and its output, which can contain secrets.
  if (/^Command failed/i.test(message)) return 'the credential_process of the AWS profile failed';
  const code = isObject(error) ? asString(error.name) : null;
  const text = code === null || code === 'Error' || message.startsWith(code) ? message : `${code}: ${message}`;
  return stripTokens(stripSecrets(text.replaceAll(/\s+/g, ' '), [])).slice(0, maxLength);
}

/**
 * Returns the message of an error. If it's empty, returns the message of the cause, or else the error's code. Cuts off
 * the request and response that Azure's library appends.
 */
function readMessage(error: unknown): string {
  const [message = ''] = errorSummary(error).split(/\s*(?:Headers: |Trace ID: |Browse to )/, 1);
  if (message !== '' || !isObject(error)) return message;
  if (isObject(error.cause)) return readMessage(error.cause);
  return asString(error.code) ?? (isObject(error.response) ? `the response has status ${String(error.response.status)}` : 'unknown error');
}

/** Strips JWTs, session tokens, assertions and keys. We recognize them because they're long and have no spaces. */
function stripTokens(text: string): string {
  return text.replaceAll(/-----BEGIN[^-]*-----.*/g, '[key]').replaceAll(/[\w+/=.~-]{40,}/g, '[token]');
}
