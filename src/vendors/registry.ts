/** Builds a connection for each configured provider. We do this again at every reload. */
import { isDialect } from '../core/call.ts';
import type { VendorIdentity } from './identity/credential.ts';
import { collectSecrets } from './strip-secrets.ts';
import type { Provider, ProviderConnection } from './vendor.ts';

export interface ProviderSource extends Omit<ProviderConnection, 'secrets' | 'identity'> {
  readonly dialect: string;
  readonly firstContentTimeoutMs?: number | null;
  readonly apiKey: string | null;
  readonly auth: { readonly header: string; readonly scheme: string | null };
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns null if the provider has no cloud identity. */
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

/** Returns the headers for every request to the provider, including the one with its key. */
export function buildHeaders({ apiKey, auth, headers }: ProviderSource): Record<string, string> {
  const all: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) all[name.toLowerCase()] = value;
  if (apiKey !== null) all[auth.header.toLowerCase()] = auth.scheme === null ? apiKey : `${auth.scheme} ${apiKey}`;
  return all;
}
