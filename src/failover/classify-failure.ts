/**
 * What a failed attempt means for the chain: a pure judgement, apart from the loop that acts on it (decisions 4, shapes 21).
 */
import type { VendorError } from '../core/errors.ts';

/** `refused`: the vendor speaks about the request itself; `failed`: anything else that went wrong at the vendor. */
export type FailureKind = 'refused' | 'failed' | 'rate_limited' | 'aborted';

/** Statuses that tell of the provider row or the path, not of the request: wrong key, no right, no such path. */
const providerStatuses: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 408, 409]);

export function classifyFailure(error: VendorError): FailureKind {
  if (error.kind === 'aborted' || error.kind === 'stopped') return 'aborted';
  const { status } = error;
  if (error.kind !== 'status' || status === null) return 'failed';
  if (status === 429) return 'rate_limited';
  if (status >= 400 && status < 500 && !providerStatuses.has(status)) return 'refused';
  return 'failed';
}

/** Whether the failure counts against the provider's circuit breaker: it could not be reached, was too slow, or is broken (shapes 16). */
export function isProviderFailure(error: VendorError): boolean {
  switch (error.kind) {
    case 'connect':
    case 'timeout':
    case 'unreadable':
    case 'broken':
      return true;
    case 'status':
      // 501 says that the vendor does not serve this path (shapes 21), not that it is ill.
      return (error.status ?? 0) >= 500 && error.status !== 501;
    case 'stopped':
    case 'aborted':
      return false;
  }
}

const defaultRetryDelayMs = 1000;
const maxRetryDelayMs = 60_000;

/**
 * How long to wait before the same model is asked once more after its 429, when no other vendor is left in the plan; null: do not wait.
 * `remainingMs` is what the call's deadline leaves, null without one.
 */
export function retryDelay(error: VendorError, remainingMs: number | null): number | null {
  if (error.retryAfterMs === null) return null; // a spend limit or quota: no wait helps
  const waitMs = Math.min(error.retryAfterMs ?? defaultRetryDelayMs, maxRetryDelayMs);
  return remainingMs !== null && waitMs >= remainingMs ? null : waitMs;
}
