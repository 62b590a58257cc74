/**
 * The properties of a provider that we need for requests to its vendor. `registry.ts` and `media.ts` take them from the
 * configuration.
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
   * The headers for authentication and those from the configuration, in lower case. We send them to nobody but the
   * provider's origin.
   */
  readonly headers: Readonly<Record<string, string>>;
  /** Adds the credentials of a cloud identity to requests. If the provider uses an API key, it's null or absent. */
  readonly identity?: VendorIdentity | null;
  readonly requests: RequestFormat;
  /** Null or absent means that we connect directly, with the default certificate authorities. */
  readonly egress?: Egress | null;
  /** The secrets that never change. Those of a cloud identity do, so use `secretsOf` to get all of them. */
  readonly secrets: readonly string[];
}

export interface Provider extends ProviderConnection {
  readonly dialect: Dialect;
  /** How long we wait for the first content of a response. Null or absent means that there's no limit. */
  readonly firstContentTimeoutMs?: number | null;
}
