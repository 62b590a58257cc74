/** Provider rows as this room needs them. `app.ts` makes them from the configuration. */
import type { Dialect } from '../core/call.ts';

/** Where a provider is, what it is sent with every request, and how long it may take. */
export interface ProviderConnection {
  readonly name: string;
  /** With the version prefix, without a slash at its end; the route's tail is appended (vendor facts 1). */
  readonly baseUrl: string;
  /** Authentication and fixed headers of the row, lower-case names: for its own host alone. */
  readonly headers: Readonly<Record<string, string>>;
  /** Values that no message may hold. */
  readonly secrets: readonly string[];
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly idleTimeoutMs: number;
}

/** Of the inference routes. */
export interface Provider extends ProviderConnection {
  readonly dialect: Dialect;
}
