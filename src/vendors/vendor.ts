/**
 * The parts of a provider that requests to vendors need. `registry.ts` and `media.ts` build them from the
 * configuration.
 */
import type { Dialect } from '../core/call.ts';
import type { Egress } from '../core/egress.ts';
import type { RequestFormat } from '../core/request-format.ts';
import type { Timeouts } from './http-client.ts';
import type { VendorIdentity } from './identity/credential.ts';

/** The address, headers and timeouts of a provider. */
export interface ProviderConnection extends Timeouts {
  readonly name: string;
  /** Includes the version prefix, but no trailing slash. `request-url.ts` appends the route's path. */
  readonly baseUrl: string;
  /** The authentication and fixed headers, with lower-case names. We only send them to the provider's origin. */
  readonly headers: Readonly<Record<string, string>>;
  /** Adds the authentication to each request in place of an API key. Null or absent if the provider has an API key. */
  readonly identity?: VendorIdentity | null;
  readonly requests: RequestFormat;
  /** Null or absent if we connect in the usual way. */
  readonly egress?: Egress | null;
  /** Values that no message may contain, except for those of the identity. See `secretsOf`. */
  readonly secrets: readonly string[];
}

/** A provider of the text routes. */
export interface Provider extends ProviderConnection {
  readonly dialect: Dialect;
  /** How long we wait for the first content of a response. Null or absent if this provider has no limit of its own. */
  readonly firstContentTimeoutMs?: number | null;
}
