/**
 * The properties of a provider that we need to send requests to its vendor. `registry.ts` and `media.ts` take them from
 * the configuration.
 */
import type { Dialect } from '../core/call.ts';
import type { Egress } from '../core/egress.ts';
import type { RequestFormat } from '../core/request-format.ts';
import type { Timeouts } from './http-client.ts';
import type { VendorIdentity } from './identity/credential.ts';

export interface ProviderConnection extends Timeouts {
  readonly name: string;
  /** The base URL including the version, without a slash at the end. `request-url.ts` appends the path of the route. */
  readonly baseUrl: string;
  /**
   * The headers for authentication and those from the configuration, in lower case. They're only sent to the provider's
   * origin.
   */
  readonly headers: Readonly<Record<string, string>>;
  /** Adds the credentials of a cloud identity to requests. Null or absent if the provider uses an API key. */
  readonly identity?: VendorIdentity | null;
  readonly requests: RequestFormat;
  /** Null or absent for a direct connection that trusts the default certificate authorities. */
  readonly egress?: Egress | null;
  /** Secrets that never change. `secretsOf` also includes those of a cloud identity, which do change. */
  readonly secrets: readonly string[];
}

export interface Provider extends ProviderConnection {
  readonly dialect: Dialect;
  /** The timeout for the first content of a response. Null or absent for no limit. */
  readonly firstContentTimeoutMs?: number | null;
}
