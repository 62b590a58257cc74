/** What a failed attempt means for the chain of candidates. Pure functions; `chain.ts` acts on them. */
import type { VendorError } from '../core/errors.ts';

/** `refused`: the vendor rejects the request itself; `failed`: any other failure of the vendor. */
export type FailureKind = 'refused' | 'failed' | 'rate_limited' | 'aborted';

/** Statuses about the provider's configuration, not about the request: wrong key, missing permission, unknown path. */
const providerStatuses: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 408, 409]);

export function classifyFailure(error: VendorError): FailureKind {
  if (error.kind === 'aborted' || error.kind === 'stopped') return 'aborted';
  const { status } = error;
  if (error.kind !== 'status' || status === null) return 'failed';
  if (status === 429) return 'rate_limited';
  if (status >= 400 && status < 500 && !providerStatuses.has(status)) return 'refused';
  return 'failed';
}

/** Whether the failure counts against the provider's circuit breaker: unreachable, too slow or broken. */
export function isProviderFailure(error: VendorError): boolean {
  switch (error.kind) {
    case 'connect':
    case 'timeout':
    case 'unreadable':
    case 'broken':
      return true;
    case 'status':
      // 501 means that the vendor does not serve this path, not that it is failing.
      return (error.status ?? 0) >= 500 && error.status !== 501;
    case 'stopped':
    case 'aborted':
      return false;
  }
}

const defaultRetryDelayMs = 1000;
const maxRetryDelayMs = 60_000;

/**
 * Delay before the same model is retried after its 429, when the plan has no other provider left; null when a retry is useless or would miss the
 * deadline. `remainingMs` is the time until the call's deadline, null without one.
 */
export function retryDelay(error: VendorError, remainingMs: number | null): number | null {
  if (error.retryAfterMs === null) return null; // an exhausted spend limit or quota
  const waitMs = Math.min(error.retryAfterMs ?? defaultRetryDelayMs, maxRetryDelayMs);
  return remainingMs !== null && waitMs >= remainingMs ? null : waitMs;
}
