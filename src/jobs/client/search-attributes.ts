/**
 * Whether the server has the gateway's search attributes, by which operators filter runs: `GatewayProjectSlug="…" and GatewayKind="learning"`.
 *
 * Best effort: a server rejects starts with attributes that are not registered. Where registration fails, workflows start without them.
 */
import type { Logger } from '../../observability/logger.ts';

/** Minimum interval between attempts: a server may not have propagated the names or the namespace yet. */
const retryIntervalMs = 5_000;

export type SearchAttributes = ReturnType<typeof createSearchAttributes>;

export function createSearchAttributes(register: () => Promise<void>, logger: Logger) {
  let isUsable = false;
  let nextTryAt = Number.NEGATIVE_INFINITY;
  let hasLogged = false;

  return {
    /** Registers the attributes unless done before. Never throws. */
    async ensureRegistered(): Promise<void> {
      if (isUsable || performance.now() < nextTryAt) return;
      try {
        await register();
        isUsable = true;
      } catch (error) {
        nextTryAt = performance.now() + retryIntervalMs;
        if (!hasLogged) logger.info({ err: error }, 'search attributes unavailable; starting workflows without them');
        hasLogged = true;
      }
    },
    /** The server may have lost its state: the next `ensureRegistered` registers again. */
    reset(): void {
      isUsable = false;
      nextTryAt = Number.NEGATIVE_INFINITY;
    },
    /** A start with attributes was rejected: starts omit them until a later `ensureRegistered` succeeds. */
    disable(): void {
      isUsable = false;
      nextTryAt = performance.now() + retryIntervalMs;
    },
    /** Whether starts may have attributes. */
    areUsable: (): boolean => isUsable,
  };
}
