/**
 * Strips account data from vendors' messages before callers see them. Some vendors repeat the key, either in full or
 * masked, or name the organization that it belongs to.
 */
import { cutText } from '../core/cut-text.ts';
import type { ProviderConnection } from './vendor.ts';

/** Shorter secrets are probably placeholders or words like `true`, and removing those would garble messages. */
const minSecretLength = 5;

/**
 * Returns the secrets of a provider. These are its key and the values of its fixed headers, one of which may contain
 * another key.
 */
export function collectSecrets({
  apiKey,
  headers,
}: {
  readonly apiKey: string | null;
  readonly headers: Readonly<Record<string, string>>;
}): string[] {
  return [apiKey ?? '', ...Object.values(headers)].filter((value) => value.length >= minSecretLength);
}

/** Returns all current secrets of a provider, including the credentials of its cloud identity. */
export function secretsOf({ secrets, identity }: Pick<ProviderConnection, 'secrets' | 'identity'>): readonly string[] {
  return identity ? [...secrets, ...identity.secrets()] : secrets;
}

/**
 * Matches masked keys such as `sk-proj-********cdef` and `sk-a...cdef`. Matching takes linear time, because all
 * repetitions are bounded. In JSON, there may be an escape such as `\n` right before a key, and its letter isn't a part
 * of the key.
 */
const maskedKey =
  /(?<!\\(?:u[\da-fA-F]{0,3})?)[\w-]{0,64}\*{3,}[\w*-]{0,64}|(?<!(?<!\\|\\u[\da-fA-F]{3})\w)(?:sk|gsk|pk|xai|AIza)[\w-]{0,64}(?:\.{3}|…|\\u2026)[\w-]{0,64}/g;
/**
 * Matches account ids of OpenAI, OpenRouter, Anthropic, AWS and Google. Requires a digit, so that names such as
 * `org-structure` don't match.
 */
const accountId =
  /(?<!(?<!\\|\\u[\da-fA-F]{3})\w)(?:(?:org|proj|acct|team|user|wrkspc)[-_](?=[A-Za-z]{0,64}\d)[A-Za-z0-9]{8,64}\b|arn:aws[\w:/.-]{1,256}|projects?[ /#]\d{6,20}\b)/g;

export function stripSecrets(text: string, secrets: readonly string[]): string {
  const rest = secrets.reduce((stripped, secret) => stripped.replaceAll(secret, '[key]'), text);
  return rest.replace(maskedKey, '[key]').replace(accountId, '[account]');
}

/** Returns the same buffer if there's nothing to strip. */
export function stripSecretsFromBytes(bytes: Buffer, secrets: readonly string[]): Buffer {
  const text = bytes.toString('utf8');
  const stripped = stripSecrets(text, secrets);
  return stripped === text ? bytes : Buffer.from(stripped);
}

/** An error may contain the whole prompt of a caller, and searching a megabyte can take a quarter of a second. */
const maxSearchedLength = 64 * 1024;
/** No match of the expressions above is longer, apart from long rows of asterisks. */
const maxMatchLength = 320;

/** Like `stripSecrets`, but only returns the beginning of a text that has more than 64 Ki characters. */
export function stripSecretsFromStart(text: string, secrets: readonly string[]): string {
  if (text.length <= maxSearchedLength) return stripSecrets(text, secrets);
  const stripped = stripSecrets(text.slice(0, maxSearchedLength), secrets);
  // The end may be the first half of a secret, which we can't recognize.
  return stripped.slice(0, -Math.max(maxMatchLength, ...secrets.map(({ length }) => length)));
}

/**
 * Shortens the vendor's message for callers, and strips everything about the provider's account. A message that was cut
 * off ends with an ellipsis.
 */
export function vendorErrorText(text: string, provider: Pick<ProviderConnection, 'secrets' | 'identity'>, maxLength = 2_000): string {
  return cutText(stripSecretsFromStart(text, secretsOf(provider)).trim(), maxLength);
}
