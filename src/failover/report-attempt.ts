import { type Candidate, connectionKey } from '../core/candidate.ts';
import type { VendorError } from '../core/errors.ts';
import type { Breakers } from './breaker.ts';
import { classifyFailure, isProviderFailure } from './classify-failure.ts';

export interface AttemptReport {
  readonly projectId: string;
  readonly candidate: Pick<Candidate, 'provider' | 'member'>;
  /** Null if the attempt succeeded. */
  readonly error: VendorError | null;
  /** False while a stream is still running, i.e. if this is just about its first content. */
  readonly isComplete?: boolean;
  readonly now: number;
}

/**
 * Reports an attempt to the circuit breaker of the provider, or of the pool member that served it. Call this exactly
 * once per attempt. Rejected requests, deadlines and disconnected callers don't count, because they say nothing about
 * the provider.
 */
export function reportAttempt(breakers: Breakers, { projectId, candidate, error, isComplete, now }: AttemptReport): void {
  const key = connectionKey(candidate);
  if (error === null) breakers.recordSuccess(projectId, key, isComplete);
  else if (isProviderFailure(error)) breakers.recordFailure(projectId, key);
  else if (classifyFailure(error) === 'rate_limited') {
    const waitMs = error.retryAfterMs ?? (candidate.member ? memberWaitMs(error) : null);
    // All members of an account have the same rate limit, so they cool down together.
    if (waitMs !== null) for (const each of candidate.member?.accountKeys ?? [key]) breakers.coolDown(projectId, each, now + waitMs);
  } else if (candidate.member && error.kind === 'status' && keyStatuses.has(error.status ?? 0))
    breakers.coolDown(projectId, key, now + accountProblemMs);
}

/** A vendor responds with one of these if it doesn't accept the API key (401) or wants to be paid first (402). */
const keyStatuses: ReadonlySet<number> = new Set([401, 402]);

/**
 * A problem with a key, a spend limit or a quota usually lasts longer than this, but somebody may be fixing it already.
 */
const accountProblemMs = 60_000;

/**
 * Returns how long a pool member cools down. It has to cool down even if the vendor doesn't say for how long, because
 * other members can take its calls in the meantime.
 */
function memberWaitMs({ retryAfterMs }: VendorError): number {
  return retryAfterMs === null ? accountProblemMs : 1_000;
}
