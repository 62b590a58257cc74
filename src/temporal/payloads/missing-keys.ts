/**
 * Tracks which payload keys this process is missing, for `/readyz` and the log. We only notice when we try to decrypt a
 * payload. So if only waiting runs need a key, we don't report it until one of them continues.
 */
import type { Clock } from '../../core/time.ts';
import type { Logger } from '../../observability/logger.ts';

/**
 * How long a key is reported as missing after it was last needed. Temporal may wait ten minutes before it retries a
 * failing workflow task, so this has to be longer.
 */
const expiryMs = 15 * 60_000;
const logIntervalMs = 60_000;
const maxWorkflowIds = 20;

interface MissingKey {
  neededAt: number;
  loggedAt: number;
  /** The workflows that have needed the key since it was last logged. */
  readonly workflowIds: Set<string>;
}

export function createMissingKeys({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
  const keys = new Map<string, MissingKey>();
  return {
    report(keyId: string, workflowId?: string): void {
      const now = clock.now();
      const key = keys.get(keyId) ?? { neededAt: now, loggedAt: Number.NEGATIVE_INFINITY, workflowIds: new Set() };
      keys.set(keyId, key);
      key.neededAt = now;
      if (workflowId !== undefined && key.workflowIds.size < maxWorkflowIds) key.workflowIds.add(workflowId);
      if (now - key.loggedAt < logIntervalMs) return;
      const workflowIds = [...key.workflowIds];
      logger.error(
        { payloadKey: keyId, workflowIds },
        'payload key missing; append it to TEMPORAL_PAYLOAD_KEY, or terminate the runs that need it',
      );
      key.loggedAt = now;
      key.workflowIds.clear();
    },
    ids(): readonly string[] {
      const expiredBefore = clock.now() - expiryMs;
      for (const [keyId, { neededAt }] of keys) if (neededAt < expiredBefore) keys.delete(keyId);
      return [...keys.keys()];
    },
    /** Forgets all missing keys. Call this after the process has received new keys. */
    clear: () => keys.clear(),
  };
}
