/** Limits the requests per person and minute. Each process counts separately. */
import { LRUCache } from 'lru-cache';
import { minuteAt } from '../core/time.ts';

const requestsPerMinute = 120;

/**
 * Creates a function to call for each request. It returns null if the request is allowed, and otherwise in how many
 * seconds one will be.
 */
export function createRateLimit(limit: number = requestsPerMinute): (personId: string, now: number) => number | null {
  const counts = new LRUCache<string, { start: number; requests: number }>({ max: 10_000 });
  return (personId, now) => {
    const { start, end } = minuteAt(now);
    const current = counts.get(personId);
    const requests = current?.start === start ? current.requests + 1 : 1;
    counts.set(personId, { start, requests });
    return requests > limit ? Math.ceil((end - now) / 1_000) : null;
  };
}
