import { type Candidate, connectionKey } from '../core/candidate.ts';
import type { VendorError } from '../core/errors.ts';
import type { Breakers } from './breaker.ts';
import { classifyFailure, isProviderFailure } from './classify-failure.ts';

export interface AttemptReport {
  readonly projectId: string;
  readonly candidate: Pick<Candidate, 'provider' | 'member'>;
  readonly error: VendorError | null;
  /** False if a stream has begun but not ended yet. */
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
    // Members of an account share a rate limit, so they cool down together.
    if (waitMs !== null) for (const each of candidate.member?.accountKeys ?? [key]) breakers.coolDown(projectId, each, now + waitMs);
  } else if (candidate.member && error.kind === 'status' && keyStatuses.has(error.status ?? 0))
    breakers.coolDown(projectId, key, now + accountProblemMs);
}

/** Vendors send a 401 if they reject an API key, and a 402 if the account needs a payment. */
const keyStatuses: ReadonlySet<number> = new Set([401, 402]);

/**
 * The cooldown after problems with a key, spend limit or quota. They usually last longer, but somebody may already be
 * fixing them.
 */
const accountProblemMs = 60_000;

/**
 * Returns how long a pool member cools down if the vendor doesn't say. Without a cooldown, the other members wouldn't
 * take over its calls.
 */
function memberWaitMs({ retryAfterMs }: VendorError): number {
  return retryAfterMs === null ? accountProblemMs : 1_000;
}
