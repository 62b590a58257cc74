/** A vendor's own words, as they may be shown to callers: some vendors repeat the key that they were sent. Pure. */

/** What is shorter is a placeholder for a vendor that takes any key, or a word such as `true`: cut out, it would tear holes into messages. */
const minSecretLength = 5;

/** Values of a provider row that no message may hold. A fixed header may hold a second key. */
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

/** The same for bytes on their way to a caller: they are the same bytes where they hold none. */
export function stripSecretsFromBytes(bytes: Buffer, secrets: readonly string[]): Buffer {
  const containsSecret = secrets.some((secret) => bytes.includes(secret));
  return containsSecret ? Buffer.from(stripSecrets(bytes.toString('utf8'), secrets)) : bytes;
}
