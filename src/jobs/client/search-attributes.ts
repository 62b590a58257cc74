/**
 * Which of the gateway's search attributes the server has, by which operators filter runs: `GatewayProjectSlug="…" and GatewayKind="learning"`.
 *
 * Best effort: a server rejects starts with attributes that are not registered. Where registration fails, workflows start without them.
 */
import type { SearchAttributePair } from '@temporalio/common';
import type { Logger } from '../../observability/logger.ts';
import { isUnavailable, type SearchAttributeRegistration } from '../connection/temporal-connection.ts';

/** Minimum interval between attempts: a server may not have propagated the names or the namespace yet. */
const retryIntervalMs = 5_000;

export type SearchAttributes = ReturnType<typeof createSearchAttributes>;

export function createSearchAttributes(names: readonly string[], register: () => Promise<SearchAttributeRegistration>, logger: Logger) {
  let usable: readonly string[] = [];
  let nextTryAt = Number.NEGATIVE_INFINITY;
  let hasLogged = false;
  let hasWarned = false;

  return {
    /** Registers the attributes that are missing. Never throws. */
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
    /** The server may have lost its state: the next `ensureRegistered` registers again. */
    reset(): void {
      usable = [];
      nextTryAt = Number.NEGATIVE_INFINITY;
    },
    /** A start with attributes was rejected: starts omit them until a later `ensureRegistered` succeeds. */
    disable(): void {
      usable = [];
      nextTryAt = performance.now() + retryIntervalMs;
    },
    /** Whether starts may have attributes. */
    areUsable: (): boolean => usable.length > 0,
    /** Those that starts may have. */
    filter: (attributes: readonly SearchAttributePair[]): SearchAttributePair[] =>
      attributes.filter(({ key }) => usable.includes(key.name)),
  };
}
