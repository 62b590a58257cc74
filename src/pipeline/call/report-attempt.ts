import { type Candidate, connectionKey } from '../../core/candidate.ts';
import type { VendorError } from '../../core/errors.ts';
import type { Breakers } from '../../failover/breaker.ts';
import { classifyFailure, isProviderFailure } from '../../failover/classify-failure.ts';

export interface AttemptReport {
  readonly projectId: string;
  readonly candidate: Pick<Candidate, 'provider' | 'member'>;
  /** Null for a successful attempt. */
  readonly error: VendorError | null;
  /** False for a stream whose content has only begun. */
  readonly isComplete?: boolean;
  readonly now: number;
}

/**
 * Reports an attempt to the circuit breaker of the provider, or of the member of its pool. Call this exactly once per
 * attempt. Rejected requests, deadlines and disconnected callers don't count, because they say nothing about the
 * provider.
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

/** With these statuses, the vendor rejects the key or doesn't get paid for it. */
const keyStatuses: ReadonlySet<number> = new Set([401, 402]);

/** A problem with a key, a spend limit or a quota lasts longer, but somebody may just be solving it. */
const accountProblemMs = 60_000;

/** A member rests for a moment even if the vendor names no time, because other members can take its calls. */
function memberWaitMs({ retryAfterMs }: VendorError): number {
  return retryAfterMs === null ? accountProblemMs : 1_000;
}
