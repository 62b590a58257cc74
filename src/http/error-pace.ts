/**
 * Slows down callers that get errors in a loop, e.g. because they retry without waiting after a 429 or while their
 * vendor is down. A failed call takes so little time that a few connections can use up a whole processor, and then the
 * calls of other projects have to queue. So while the event loop is busy, we send the errors of a project 5 ms apart,
 * or 25 ms apart while it's saturated. We never hold back an error for more than a second, and never hold back a
 * successful response, but with HTTP pipelining, it has to wait for the errors before it.
 */
import { LRUCache } from 'lru-cache';
import type { Load } from '../core/event-loop-load.ts';
import type { ErrorPace } from './error-handler.ts';
import type { RequestOwner } from './request-owner.ts';

const intervalMs: Readonly<Record<Exclude<Load, 'light'>, number>> = { busy: 5, saturated: 25 };
/** We never hold an error for longer than this, because it keeps a response in memory. */
const maxDelayMs = 1_000;
/** If there are more owners than this, the ones that haven't had an error for the longest time start over. */
const maxOwners = 10_000;

export interface ErrorPaceOptions {
  readonly ownerOf: RequestOwner;
  readonly readLoad: () => Load;
  readonly now?: () => number;
}

export function createErrorPace({ ownerOf, readLoad, now = () => performance.now() }: ErrorPaceOptions): ErrorPace {
  /** Maps each owner to the earliest time at which we may send its next error. */
  const nextAt = new LRUCache<string, number>({ max: maxOwners });
  return (request) => {
    const load = readLoad();
    if (load === 'light') return 0;
    const owner = ownerOf(request);
    const time = now();
    const sendAt = Math.min(Math.max(nextAt.get(owner) ?? 0, time), time + maxDelayMs);
    nextAt.set(owner, sendAt + intervalMs[load]);
    return sendAt - time;
  };
}
