/** A provider row as this room needs it. `app.ts` makes it from the configuration. */
import type { Dialect } from '../core/call.ts';

export interface Provider {
  readonly name: string;
  readonly dialect: Dialect;
  /** With the version prefix, without a slash at its end; the route's tail is appended (vendor facts 1). */
  readonly baseUrl: string;
  /** Authentication and fixed headers of the row, lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** Values that no message may hold. */
  readonly secrets: readonly string[];
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly idleTimeoutMs: number;
}
