/** What a failed attempt means for the chain of candidates. Pure functions; `chain.ts` acts on them. */
import type { VendorError } from '../core/errors.ts';
import { contextOverflowCode } from '../core/errors.ts';

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

/**
 * With these statuses, the vendor rejects the gateway's account. If we passed them on, callers would think that
 * something was wrong with their virtual key.
 */
const accountStatuses: ReadonlySet<number> = new Set([401, 402, 403]);

/**
 * Reports whether the failure counts as a refusal once every other model has refused as well. That includes 404, 405,
 * 408 and 409. The chain treats these as failures because another provider may well serve the request, but if none
 * does, the vendor's status tells the caller more than a 502 would.
 */
export function isFinalRefusal(error: VendorError): boolean {
  const { kind, status } = error;
  return kind === 'status' && status !== null && status >= 400 && status < 500 && status !== 429 && !accountStatuses.has(status);
}

/** Reports whether the vendor refused the request because the prompt is too long for the model. */
export function isContextOverflow(error: VendorError): boolean {
  return classifyFailure(error) === 'refused' && error.report.code === contextOverflowCode;
}

/** Whether the failure counts against the provider's circuit breaker: unreachable, too slow or broken. */
export function isProviderFailure(error: VendorError): boolean {
  switch (error.kind) {
    case 'connect':
      return !error.closedWhileSending;
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

/** Statuses of a vendor that is limited or overloaded. */
const busyStatuses: ReadonlySet<number> = new Set([429, 503, 529]);

/**
 * Milliseconds to wait before a failed chain is worth repeating, because its vendors limited the rate: the shortest wait that one of them named.
 * Null when a repetition may succeed at once, or when no wait helps.
 *
 * Only the last failure of each model counts. Refusals, faults of the configuration and exhausted quotas do not count, because no wait changes
 * them. Any failure other than a busy vendor (429, 503, 529) may be over at once.
 */
export function waitOfLimitedChain(failures: readonly Failure[]): number | null {
  const waits: number[] = [];
  for (const error of lastErrorsOf(failures)) {
    const { status, retryAfterMs } = error;
    if (error.kind === 'status' && status !== null && busyStatuses.has(status)) {
      const waitMs = retryAfterMs === undefined && status === 429 ? defaultRetryDelayMs : retryAfterMs;
      if (typeof waitMs === 'number') waits.push(Math.min(waitMs, maxRetryDelayMs));
    } else if (!isLasting(error)) return null;
  }
  return waits.length === 0 ? null : Math.min(...waits);
}

/** Reports whether a failed chain would fail again, e.g. because each vendor rejects the gateway's key. */
export function isLastingFailure(failures: readonly Failure[]): boolean {
  return failures.length > 0 && lastErrorsOf(failures).every(isLasting);
}

interface Failure {
  readonly candidate: { readonly id: string };
  readonly error: VendorError;
}

/** The last error of each model. */
function lastErrorsOf(failures: readonly Failure[]): VendorError[] {
  return [...new Map(failures.map(({ candidate, error }) => [candidate.id, error])).values()];
}

/** Reports whether only a change of the request or of the configuration helps. 408 and 409 are the vendor's own short delays. */
function isLasting(error: VendorError): boolean {
  const { kind, status } = error;
  if (classifyFailure(error) === 'refused') return true;
  return kind === 'status' && status !== null && providerStatuses.has(status) && status !== 408 && status !== 409;
}
