/**
 * Tracks which of the gateway's search attributes the server has. Operators use them to filter runs, e.g.
 * `GatewayProjectSlug="…" and GatewayKind="learning"`.
 *
 * This is best effort. A server rejects starts with unregistered attributes, so if we can't register them, we start
 * workflows without.
 */
import type { SearchAttributePair } from '@temporalio/common';
import type { Logger } from '../../observability/logger.ts';
import { isUnavailable, type SearchAttributeRegistration } from '../connection/temporal-connection.ts';

/**
 * The minimum interval between attempts, because it can take a while until a server knows a new namespace or attribute.
 */
const retryIntervalMs = 5_000;

export type SearchAttributes = ReturnType<typeof createSearchAttributes>;

export function createSearchAttributes(names: readonly string[], register: () => Promise<SearchAttributeRegistration>, logger: Logger) {
  let usable: readonly string[] = [];
  let nextTryAt = Number.NEGATIVE_INFINITY;
  let hasLogged = false;
  let hasWarned = false;

  return {
    /** Registers missing attributes. Never throws. */
    async ensureRegistered(): Promise<void> {
      if (usable.length === names.length || performance.now() < nextTryAt) return;
      nextTryAt = performance.now() + retryIntervalMs;
      try {
        const { registered, rejection } = await register();
        usable = registered;
        if (rejection !== undefined && !isUnavailable(rejection) && !hasWarned) {
          const missing = names.filter((name) => !registered.includes(name));
          logger.warn(
            { err: rejection, searchAttributes: missing },
            'search attributes cannot be registered; starting workflows without them',
          );
          hasWarned = true;
        }
      } catch (error) {
        if (!hasLogged) logger.info({ err: error }, 'search attributes unavailable; starting workflows without them');
        hasLogged = true;
      }
    },
    /** Makes the next `ensureRegistered` register again, because the server may have lost its state. */
    reset(): void {
      usable = [];
      nextTryAt = Number.NEGATIVE_INFINITY;
    },
    /**
     * Call this if a start with attributes was rejected. Starts then omit them until a later `ensureRegistered`
     * succeeds.
     */
    disable(): void {
      usable = [];
      nextTryAt = performance.now() + retryIntervalMs;
    },
    /** Reports whether starts may have attributes. */
    areUsable: (): boolean => usable.length > 0,
    /** Returns the attributes that starts may have. */
    filter: (attributes: readonly SearchAttributePair[]): SearchAttributePair[] =>
      attributes.filter(({ key }) => usable.includes(key.name)),
  };
}
