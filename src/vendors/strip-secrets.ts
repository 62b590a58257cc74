/**
 * Removes details of the provider's account from vendor messages before callers see them. Some vendors repeat the key
 * that they received, in full or masked, or name the organization that it belongs to.
 */

import type { ProviderConnection } from './vendor.ts';

/** A shorter value is probably a placeholder or a word like `true`. Removing those would garble messages. */
const minSecretLength = 5;

/**
 * Returns the secrets of a provider. These are its key, and the values of fixed headers, which may contain another key.
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

/** Returns everything about a provider that's secret right now, including its identity's credentials. */
export function secretsOf({ secrets, identity }: Pick<ProviderConnection, 'secrets' | 'identity'>): readonly string[] {
  return identity ? [...secrets, ...identity.secrets()] : secrets;
}

/**
 * Matches masked keys such as `sk-proj-********cdef` and `sk-a...cdef`. The repetitions are bounded so that matching
 * takes linear time. In JSON, a key can follow an escape such as `\n`, but a match can't start inside an escape.
 */
const maskedKey =
  /(?<!\\(?:u[\da-fA-F]{0,3})?)[\w-]{0,64}\*{3,}[\w*-]{0,64}|(?<!(?<!\\|\\u[\da-fA-F]{3})\w)(?:sk|gsk|pk|xai|AIza)[\w-]{0,64}(?:\.{3}|…|\\u2026)[\w-]{0,64}/g;
/**
 * Matches account ids of OpenAI, OpenRouter, Anthropic, AWS and Google. We require a digit so that names such as
 * `org-structure` don't match.
 */
const accountId =
  /(?<!(?<!\\|\\u[\da-fA-F]{3})\w)(?:(?:org|proj|acct|team|user|wrkspc)[-_](?=[A-Za-z]{0,64}\d)[A-Za-z0-9]{8,64}\b|arn:aws[\w:/.-]{1,256}|projects?[ /#]\d{6,20}\b)/g;

export function stripSecrets(text: string, secrets: readonly string[]): string {
  const rest = secrets.reduce((stripped, secret) => stripped.replaceAll(secret, '[key]'), text);
  return rest.replace(maskedKey, '[key]').replace(accountId, '[account]');
}

/** Strips secrets from the bytes of an error event. Returns the same buffer if there was nothing to strip. */
export function stripSecretsFromBytes(bytes: Buffer, secrets: readonly string[]): Buffer {
  const text = bytes.toString('utf8');
  const stripped = stripSecrets(text, secrets);
  return stripped === text ? bytes : Buffer.from(stripped);
}

/**
 * Returns the vendor's message for callers. It's shortened and doesn't contain any details of the provider's account.
 */
export function vendorErrorText(text: string, provider: Pick<ProviderConnection, 'secrets' | 'identity'>, maxLength = 2_000): string {
  return stripSecrets(text, secretsOf(provider)).trim().slice(0, maxLength);
}
