/** Limits how many requests each person can send to this process per minute. */
import { LRUCache } from 'lru-cache';
import { minuteAt } from '../core/time.ts';

const requestsPerMinute = 120;

/** Returns a function that counts requests. The result is null if they're allowed, or the number of seconds to wait. */
export function createRateLimit(): (personId: string, now: number, count: number) => number | null {
  const counts = new LRUCache<string, { start: number; requests: number }>({ max: 10_000 });
  return (personId, now, count) => {
    const { start, end } = minuteAt(now);
    const current = counts.get(personId);
    const requests = current?.start === start ? current.requests + count : count;
    counts.set(personId, { start, requests });
    return requests > requestsPerMinute ? Math.ceil((end - now) / 1_000) : null;
  };
}
