/** Describes errors of the clouds' libraries for logs and `/readyz`, without any secret that they may quote. */
import { errorSummary } from '../../core/error-messages.ts';
import { asString, isObject } from '../../core/json/narrow.ts';
import { stripSecrets } from '../strip-secrets.ts';

const maxLength = 300;

export function describeIdentityError(error: unknown): string {
  if (error instanceof SyntaxError) return 'a file or response is not valid JSON'; // The message quotes the file.
  const message = readMessage(error);
  // The SDK quotes the command and its output.
  if (/^Command failed/i.test(message)) return 'the credential_process of the AWS profile failed';
  const code = isObject(error) ? asString(error.name) : null;
  const text = code === null || code === 'Error' || message.startsWith(code) ? message : `${code}: ${message}`;
  return stripTokens(stripSecrets(text.replaceAll(/\s+/g, ' '), [])).slice(0, maxLength);
}

/** Some errors have no message but a cause or a code, and Azure's library appends the whole request and response. */
function readMessage(error: unknown): string {
  const [message = ''] = errorSummary(error).split(/\s*(?:Headers: |Trace ID: |Browse to )/, 1);
  if (message !== '' || !isObject(error)) return message;
  if (isObject(error.cause)) return readMessage(error.cause);
  return asString(error.code) ?? (isObject(error.response) ? `the response has status ${String(error.response.status)}` : 'unknown error');
}

/** Matches JWTs, session tokens, assertions and keys, all of which are long runs without a space. */
function stripTokens(text: string): string {
  return text.replaceAll(/-----BEGIN[^-]*-----.*/g, '[key]').replaceAll(/[\w+/=.~-]{40,}/g, '[token]');
}
