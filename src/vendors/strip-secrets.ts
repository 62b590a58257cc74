/** Removes keys from vendor messages before callers see them: some vendors repeat the key that they received. Pure. */

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

export function stripSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((rest, secret) => rest.replaceAll(secret, '[key]'), text);
}

/** Strips secrets from bytes; returns the same buffer when it contains none. */
export function stripSecretsFromBytes(bytes: Buffer, secrets: readonly string[]): Buffer {
  const containsSecret = secrets.some((secret) => bytes.includes(secret));
  return containsSecret ? Buffer.from(stripSecrets(bytes.toString('utf8'), secrets)) : bytes;
}
