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
 * Reports an attempt to the circuit breaker of the provider, or of the member of its pool. Call this exactly once per attempt. Rejected requests,
 * deadlines and disconnected callers don't count, because they say nothing about the provider.
 */
export function reportAttempt(breakers: Breakers, { projectId, candidate, error, isComplete, now }: AttemptReport): void {
  const key = connectionKey(candidate);
  if (error === null) breakers.recordSuccess(projectId, key, isComplete);
  else if (isProviderFailure(error)) breakers.recordFailure(projectId, key);
  else if (classifyFailure(error) === 'rate_limited') coolDown(breakers, { projectId, candidate, error, now });
}

/** A member without `Retry-After` still rests for a moment, because other members can take its calls. */
const memberCooldownMs = 1_000;

/** All members of an account have the same rate limit, so they cool down together. */
function coolDown(breakers: Breakers, { projectId, candidate, error, now }: AttemptReport & { readonly error: VendorError }): void {
  const { provider, member } = candidate;
  const waitMs = typeof error.retryAfterMs === 'number' ? error.retryAfterMs : member ? memberCooldownMs : null;
  if (waitMs === null) return;
  for (const key of member?.accountKeys ?? [provider]) breakers.coolDown(projectId, key, now + waitMs);
}
