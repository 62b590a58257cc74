/**
 * Limits how much calls may use while the database is unavailable, so that we can't check their ceilings, and the policy is
 * `allow`. Each process lets a share of each counter pass. The share is a tenth of a ceiling of calls or cost, and all
 * of a ceiling per minute. It applies to the whole window. We don't renew it when the database comes back, because many
 * short outages would then add up to more than the ceiling.
 *
 * Calls reserve their upper bounds, as they do on the ceiling itself, so that concurrent calls can't exceed the share
 * together.
 */
import type { Logger } from '../observability/logger.ts';
import type { CounterQuota } from './counter-quota.ts';
import type { LimitedCounter } from './counters.ts';
import type { QuotaGrant, ReserveResult } from './wait-queue.ts';

/** Calls reserve and settle here in the same way as with the leased quota of a counter. */
export interface UnmeteredQuota extends Pick<CounterQuota, 'reserve' | 'settle'> {
  reserve(bound: number, counter: LimitedCounter): ReserveResult;
  /** Always returns null. No lease was debited, so the database counts the call when it stores the call's row. */
  settle(grant: QuotaGrant, spent: number): null;
}

interface Entry {
  readonly quota: UnmeteredQuota;
  /** End of the window, or null if the window never ends. */
  readonly end: number | null;
}

/** The fraction of a ceiling of calls or cost that each process lets pass unmetered in one window. */
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
    /** Forgets the windows that ended before `epochMs`. */
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
      // The ceiling itself works the same way. A call larger than the remainder gets all of it if no other call holds a
      // reservation.
      const isOnly = reserved === 0 && left > 0;
      if (bound > left && !isOnly) {
        const ceiling = `${key.scope} ${key.ceiling} ${key.window}`;
        if (!isExhausted) logger.warn({ projectId: key.projectId, ceiling }, 'unmetered allowance used up; refusing calls');
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
