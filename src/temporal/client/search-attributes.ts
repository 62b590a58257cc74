/**
 * Tracks which of the gateway's search attributes are registered on the server. Operators use them to filter runs, e.g.
 * `GatewayProjectSlug="…" and GatewayKind="learning"`. This is best effort. The server rejects starts with attributes
 * that it doesn't know, so if we can't register them, we start workflows without them.
 */
import type { SearchAttributePair } from '@temporalio/common';
import type { Logger } from '../../observability/logger.ts';
import { isUnavailable, type SearchAttributeRegistration } from '../connection/temporal-connection.ts';

/** The delay before another attempt. It can take a while until a server knows about a new namespace or attribute. */
const retryIntervalMs = 5_000;

export type SearchAttributes = ReturnType<typeof createSearchAttributes>;

export function createSearchAttributes(names: readonly string[], register: () => Promise<SearchAttributeRegistration>, logger: Logger) {
  let usable: readonly string[] = [];
  let nextTryAt = Number.NEGATIVE_INFINITY;
  let hasLogged = false;
  let hasWarned = false;

  return {
    /** Registers the attributes that the server doesn't have. Never throws. */
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
            'failed to register search attributes; starting workflows without them',
          );
          hasWarned = true;
        }
      } catch (error) {
        if (!hasLogged) logger.info({ err: error }, 'search attributes unavailable; starting workflows without them');
        hasLogged = true;
      }
    },
    /**
     * Call this if the server may have lost the attributes. The next `ensureRegistered` then checks all of them again.
     */
    reset(): void {
      usable = [];
      nextTryAt = Number.NEGATIVE_INFINITY;
    },
    /**
     * Call this if the server has rejected a start because of its search attributes. Workflows then start without them
     * until `ensureRegistered` succeeds again.
     */
    disable(): void {
      usable = [];
      nextTryAt = performance.now() + retryIntervalMs;
    },
    areUsable: (): boolean => usable.length > 0,
    /** Removes attributes that aren't registered, because the server would reject them. */
    filter: (attributes: readonly SearchAttributePair[]): SearchAttributePair[] =>
      attributes.filter(({ key }) => usable.includes(key.name)),
  };
}
