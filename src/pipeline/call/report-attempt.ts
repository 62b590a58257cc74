import type { VendorError } from '../../core/errors.ts';
import type { Breakers } from '../../failover/breaker.ts';
import { classifyFailure, isProviderFailure } from '../../failover/classify-failure.ts';

export interface AttemptReport {
  readonly projectId: string;
  readonly provider: string;
  /** Null for a successful attempt. */
  readonly error: VendorError | null;
  /** False for a stream whose content has only begun. */
  readonly isComplete?: boolean;
  readonly now: number;
}

/**
 * Reports an attempt to the provider's circuit breaker. Call this exactly once per attempt. Rejected requests,
 * deadlines and disconnected callers don't count, because they say nothing about the provider.
 */
export function reportAttempt(breakers: Breakers, { projectId, provider, error, isComplete, now }: AttemptReport): void {
  if (error === null) breakers.recordSuccess(projectId, provider, isComplete);
  else if (isProviderFailure(error)) breakers.recordFailure(projectId, provider);
  else if (classifyFailure(error) === 'rate_limited' && typeof error.retryAfterMs === 'number')
    breakers.coolDown(projectId, provider, now + error.retryAfterMs);
}
