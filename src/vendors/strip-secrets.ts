/**
 * Removes what concerns the provider's account from vendor messages before callers see them: some vendors repeat the key that they received,
 * whole or masked, or name the organization that it belongs to. Pure.
 */

/** Shorter values are placeholder keys or values such as `true`, whose removal would garble messages. */
const minSecretLength = 5;

/** Returns the values that no message may contain: the key, and fixed headers, which may contain another key. */
export function collectSecrets({
  apiKey,
  headers,
}: {
  readonly apiKey: string | null;
  readonly headers: Readonly<Record<string, string>>;
}): string[] {
  return [apiKey ?? '', ...Object.values(headers)].filter((value) => value.length >= minSecretLength);
}

/**
 * `sk-proj-********cdef`, `sk-a...cdef`. Bounded repetitions, so that the time is linear. In JSON text a word begins after an escape such as
 * `\n`, and no match begins within one.
 */
const maskedKey =
  /(?<!\\(?:u[\da-fA-F]{0,3})?)[\w-]{0,64}\*{3,}[\w*-]{0,64}|(?<!(?<!\\|\\u[\da-fA-F]{3})\w)(?:sk|gsk|pk|xai|AIza)[\w-]{0,64}(?:\.{3}|…|\\u2026)[\w-]{0,64}/g;
/** Ids of OpenAI, OpenRouter and Anthropic, of AWS, and of Google. A digit tells them from names such as `org-structure`. */
const accountId =
  /(?<!(?<!\\|\\u[\da-fA-F]{3})\w)(?:(?:org|proj|acct|team|user|wrkspc)[-_](?=[A-Za-z]{0,64}\d)[A-Za-z0-9]{8,64}\b|arn:aws[\w:/.-]{1,256}|projects?[ /#]\d{6,20}\b)/g;

export function stripSecrets(text: string, secrets: readonly string[]): string {
  const rest = secrets.reduce((stripped, secret) => stripped.replaceAll(secret, '[key]'), text);
  return rest.replace(maskedKey, '[key]').replace(accountId, '[account]');
}

/** The same of the bytes of an error event; returns the same buffer when nothing is stripped. */
export function stripSecretsFromBytes(bytes: Buffer, secrets: readonly string[]): Buffer {
  const text = bytes.toString('utf8');
  const stripped = stripSecrets(text, secrets);
  return stripped === text ? bytes : Buffer.from(stripped);
}
