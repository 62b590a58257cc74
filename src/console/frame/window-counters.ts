/**
 * Reads the usage of ceilings for the console. This includes new ceilings, which have no counter until the next call.
 */
import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import { type CounterKey, formatCounterKey } from '../../ceilings/counters.ts';
import type { Clock } from '../../core/time.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import type { RecentUse } from '../../usage/analytics/recent-use.ts';

interface WindowCountersDeps {
  readonly readCounters: ReadCounters;
  readonly analytics: Pick<Analytics, 'recentUse'>;
  readonly clock: Clock;
}

/**
 * Wraps `readCounters` to fill in the usage of ceilings that have no counter yet. The counter of a new ceiling is
 * created by the next call, and then includes all earlier calls of the window. Until then, we sum up the recorded
 * calls. We only do this for ceilings per day and month, because a minute is over soon, and for a total we might have
 * to read every call ever made.
 */
export function createWindowCounters({ readCounters, analytics, clock }: WindowCountersDeps): ReadCounters {
  return async (projectId, keys) => {
    const counted = await readCounters(projectId, keys);
    const missing = keys.filter((key) => (key.window === 'day' || key.window === 'month') && !counted.has(formatCounterKey(key)));
    const to = clock.now() + 1;
    const starts = [...new Set(missing.map(({ start }) => start))];
    const windows = new Map(
      await Promise.all(starts.map(async (from) => [from, await analytics.recentUse(projectId, { from, to })] as const)),
    );
    const filled = missing.map((key) => [formatCounterKey(key), { used: amountOf(key, windows.get(key.start)), reserved: 0 }] as const);
    return new Map([...counted, ...filled]);
  };
}

/** Returns the usage of a counter in the period, as a number of calls or in nano-dollars. */
export function amountOf({ scope, scopeId, ceiling }: CounterKey, recent: RecentUse | undefined): number {
  const use = scope === 'project' ? recent?.project : (scope === 'key' ? recent?.keys : recent?.applications)?.get(scopeId);
  return (ceiling === 'cost' ? use?.cost : use?.calls) ?? 0;
}
