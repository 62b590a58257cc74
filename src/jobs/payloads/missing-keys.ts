/**
 * Tracks which payload keys this process lacks, for `/readyz` and the log. We only notice a missing key when we can't
 * decrypt a payload. A key that only waiting runs need is therefore reported once one of them continues.
 */
import type { Clock } from '../../core/time.ts';
import type { Logger } from '../../observability/logger.ts';
import type { OnMissingKey } from './encryption.ts';

export interface MissingKeys {
  readonly report: OnMissingKey;
  /** Returns the ids of keys that a payload has needed recently. */
  ids(): readonly string[];
  /** Call this after the keys of this process have changed. */
  clear(): void;
}

/** Temporal retries a failing workflow task after ten minutes at most, so this has to be longer. */
const expiryMs = 15 * 60_000;
const logIntervalMs = 60_000;
const maxWorkflowIds = 20;

interface MissingKey {
  neededAt: number;
  loggedAt: number;
  /** The workflow ids that we've collected since the last log line. */
  readonly workflowIds: Set<string>;
}

export function createMissingKeys({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }): MissingKeys {
  const keys = new Map<string, MissingKey>();
  return {
    report(keyId, workflowId) {
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
    ids() {
      const expiredBefore = clock.now() - expiryMs;
      for (const [keyId, { neededAt }] of keys) if (neededAt < expiredBefore) keys.delete(keyId);
      return [...keys.keys()];
    },
    clear: () => keys.clear(),
  };
}
