import { type Candidate, connectionKey } from '../core/candidate.ts';
import type { VendorError } from '../core/errors.ts';
import type { Breakers } from './breaker.ts';
import { classifyFailure, isProviderFailure } from './classify-failure.ts';

export interface AttemptReport {
  readonly projectId: string;
  readonly candidate: Pick<Candidate, 'provider' | 'member'>;
  /** Null if the attempt succeeded. */
  readonly error: VendorError | null;
  /** False if a stream has only begun. */
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

/** Vendors respond with 401 if they don't accept the API key, and with 402 if they want to be paid first. */
const keyStatuses: ReadonlySet<number> = new Set([401, 402]);

/**
 * Problems with a key, a spend limit or a quota usually last longer than this. But somebody may already be fixing it,
 * so we check again.
 */
const accountProblemMs = 60_000;

/**
 * Returns how long a pool member cools down if the vendor doesn't say. It can't skip the cooldown, because then the
 * other members wouldn't take over its calls.
 */
function memberWaitMs({ retryAfterMs }: VendorError): number {
  return retryAfterMs === null ? accountProblemMs : 1_000;
}
