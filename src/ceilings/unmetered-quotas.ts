/**
 * How much calls may use of ceilings that cannot be checked, while the database is unavailable and the policy is `allow`. Each process lets a
 * share of each counter pass: a tenth of a ceiling of calls or cost, and all of a ceiling per minute. The share is for the whole window and is
 * not renewed when the database comes back, because many short outages would then add up to more than the ceiling.
 *
 * As with the ceiling itself, calls reserve their upper bounds, so that concurrent calls cannot use more together.
 */
import type { Logger } from '../observability/logger.ts';
import type { CounterQuota } from './counter-quota.ts';
import type { LimitedCounter } from './counters.ts';
import type { QuotaGrant, ReserveResult } from './wait-queue.ts';

/** What a call reserves and settles, as with the leased quota of a counter. */
export interface UnmeteredQuota extends Pick<CounterQuota, 'reserve' | 'settle'> {
  reserve(bound: number, counter: LimitedCounter): ReserveResult;
  /** Nothing is debited from a lease, so the database counts the call by its row. */
  settle(grant: QuotaGrant, spent: number): null;
}

interface Entry {
  readonly quota: UnmeteredQuota;
  /** End of the window; null when it never ends. */
  readonly end: number | null;
}

/** Of a ceiling of calls or cost: so much may pass unmetered in one window and process. */
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
      // As with the ceiling, a call larger than what is left gets all of it while no other call has a reservation.
      const isOnly = reserved === 0 && left > 0;
      if (bound > left && !isOnly) {
        const ceiling = `${key.scope} ${key.ceiling} ${key.window}`;
        if (!isExhausted) logger.warn({ projectId: key.projectId, ceiling }, 'ceiling cannot be checked; no more calls pass unmetered');
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
