/**
 * The parts of a provider that requests to vendors need. `registry.ts` and `media.ts` build them from the
 * configuration.
 */
import type { Dialect } from '../core/call.ts';
import type { Egress } from '../core/egress.ts';
import type { RequestFormat } from '../core/request-format.ts';
import type { Timeouts } from './http-client.ts';
import type { VendorIdentity } from './identity/credential.ts';

export interface ProviderConnection extends Timeouts {
  readonly name: string;
  /** The base URL with the version prefix, but without a trailing slash. `request-url.ts` appends the route's path. */
  readonly baseUrl: string;
  /** The authentication and fixed headers, with lower-case names. We only send them to the provider's origin. */
  readonly headers: Readonly<Record<string, string>>;
  /** Adds the credentials of a cloud identity to requests. Null or absent if the provider uses an API key. */
  readonly identity?: VendorIdentity | null;
  readonly requests: RequestFormat;
  /** Null or absent if connections go out directly, with the default certificate authorities. */
  readonly egress?: Egress | null;
  /**
   * The secrets of the provider. The secrets of its cloud identity change, so they aren't included (see `secretsOf`).
   */
  readonly secrets: readonly string[];
}

export interface Provider extends ProviderConnection {
  readonly dialect: Dialect;
  /** How long we wait for the first content of a response. Null or absent if the provider doesn't limit this. */
  readonly firstContentTimeoutMs?: number | null;
}
