/** Builds the connections of the configured providers. They are all rebuilt at every reload. */
import { isDialect } from '../core/call.ts';
import type { VendorIdentity } from './identity/credential.ts';
import { collectSecrets } from './strip-secrets.ts';
import type { Provider, ProviderConnection } from './vendor.ts';

/** The part of a provider's configuration that the text routes need. */
export interface ProviderSource extends Omit<ProviderConnection, 'secrets' | 'identity'> {
  readonly dialect: string;
  readonly firstContentTimeoutMs?: number | null;
  readonly apiKey: string | null;
  readonly auth: { readonly header: string; readonly scheme: string | null };
  /** The fixed headers from the configuration. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns a provider's cloud identity, or null if it doesn't have one. */
export type FindIdentity = (provider: string) => VendorIdentity | null;

export function buildProviders(
  sources: Readonly<Record<string, ProviderSource>>,
  findIdentity: FindIdentity = () => null,
): ReadonlyMap<string, Provider> {
  const providers = new Map<string, Provider>();
  for (const [name, source] of Object.entries(sources)) {
    const { dialect } = source;
    if (!isDialect(dialect)) continue;
    const identity = findIdentity(name);
    providers.set(name, { ...source, dialect, identity, headers: buildHeaders(source), secrets: collectSecrets(source) });
  }
  return providers;
}

/** Returns the headers that we send with every request to the provider, including its key. */
export function buildHeaders({ apiKey, auth, headers }: ProviderSource): Record<string, string> {
  const all: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) all[name.toLowerCase()] = value;
  if (apiKey !== null) all[auth.header.toLowerCase()] = auth.scheme === null ? apiKey : `${auth.scheme} ${apiKey}`;
  return all;
}
