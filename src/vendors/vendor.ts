/** Providers as requests to vendors need them; built from the configuration by `registry.ts` and `media.ts`. */
import type { Dialect } from '../core/call.ts';
import type { Timeouts } from './http-client.ts';

/** Address, headers and timeouts of a provider. */
export interface ProviderConnection extends Timeouts {
  readonly name: string;
  /** With the version prefix and without a trailing slash; the path of the route is appended. */
  readonly baseUrl: string;
  /** Authentication and fixed headers with lower-case names. Sent to the provider's origin only. */
  readonly headers: Readonly<Record<string, string>>;
  /** Values that no message may contain. */
  readonly secrets: readonly string[];
}

/** A provider of the text routes. */
export interface Provider extends ProviderConnection {
  readonly dialect: Dialect;
  /** Longest wait for the first content of a response. Null or absent: no limit of its own. */
  readonly firstContentTimeoutMs?: number | null;
}
