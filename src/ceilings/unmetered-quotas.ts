/**
 * Limits the usage of calls whose ceilings we can't check because the database is unavailable, if the policy is
 * `allow`. Each process admits a share of each counter: a tenth of a ceiling on calls or cost, and all of a per-minute
 * ceiling. The share is for the whole window. It isn't renewed when the database comes back, because with many short
 * outages the usage could exceed the ceiling.
 *
 * Calls reserve their upper bounds here as well, so that concurrent calls can't exceed the share together.
 */
import type { Logger } from '../observability/logger.ts';
import type { CounterQuota } from './counter-quota.ts';
import type { LimitedCounter } from './counters.ts';
import type { QuotaGrant, ReserveResult } from './wait-queue.ts';

export interface UnmeteredQuota extends Pick<CounterQuota, 'reserve' | 'settle'> {
  reserve(bound: number, counter: LimitedCounter): ReserveResult;
  /**
   * Counts a call's usage towards the share that this process may admit. Always returns null, because there's no lease
   * to debit while the quota store is down.
   */
  settle(grant: QuotaGrant, spent: number): null;
}

interface Entry {
  readonly quota: UnmeteredQuota;
  /** The end of the window, or null if it never ends. */
  readonly end: number | null;
}

/**
 * While the store is down and the policy is `allow`, each process admits this share of a ceiling on calls or cost, per
 * window.
 */
const unmeteredShare = 0.1;

export function createUnmeteredQuotas(logger: Pick<Logger, 'warn'>) {
  const entries = new Map<string, Entry>();
  return {
    quotaFor({ name, key }: LimitedCounter): UnmeteredQuota {
      const existing = entries.get(name);
      if (existing) return existing.quota;
      const quota = createQuota(logger);
      entries.set(name, { quota, end: key.end });
      return quota;
    },
    deleteEnded(epochMs: number): void {
      for (const [name, { end }] of entries) if (end !== null && end < epochMs) entries.delete(name);
    },
  };
}

function createQuota(logger: Pick<Logger, 'warn'>): UnmeteredQuota {
  let used = 0;
  let reserved = 0;
  let isExhausted = false;
  return {
    reserve(bound, { key, limit }) {
      const left = shareOf(limit, key.window === 'minute') - used - reserved;
      // As with any ceiling, a call that needs more than what's left may still take the rest, provided that nothing
      // else is reserved.
      const isOnly = reserved === 0 && left > 0;
      if (bound > left && !isOnly) {
        const ceiling = `${key.scope} ${key.ceiling} ${key.window}`;
        if (!isExhausted)
          logger.warn({ projectId: key.projectId, ceiling }, 'unmetered allowance used up during a quota store outage; refusing calls');
        isExhausted = true;
        return { kind: 'denied' };
      }
      const amount = Math.min(bound, left);
      reserved += amount;
      return { kind: 'granted', reserved: amount, generation: 0 };
    },
    settle(grant, spent) {
      reserved -= grant.reserved;
      used += spent;
      return null;
    },
  };
}

function shareOf(limit: number, isPerMinute: boolean): number {
  if (isPerMinute || limit === 0) return limit;
  return Math.max(1, Math.floor(limit * unmeteredShare));
}
