/** Decides what a failed attempt means for the chain. These are pure functions, and `chain.ts` acts on the results. */
import type { Candidate } from '../core/candidate.ts';
import { contextOverflowCode, type VendorError } from '../core/errors.ts';

/** `refused` means that the vendor rejected the request, and `failed` that it couldn't serve it. */
export type FailureKind = 'refused' | 'failed' | 'rate_limited' | 'aborted';

/**
 * Statuses that usually mean that something is wrong with the provider's configuration and not with the request, e.g. a
 * wrong key, a missing permission or an unknown path.
 */
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
 * Statuses with which the vendor rejects the gateway's own account. If we passed these on, callers would think that
 * their virtual key was wrong.
 */
const accountStatuses: ReadonlySet<number> = new Set([401, 402, 403]);

/**
 * Returns true if we should pass the vendor's status on as a refusal once all other models have refused too. Unlike
 * `classifyFailure`, this includes 404, 405, 408 and 409. As long as there are other candidates, we treat these as
 * failures, because another provider may well serve the request. In the end, the vendor's status tells the caller more
 * than a 502 would.
 */
export function isFinalRefusal(error: VendorError): boolean {
  const { kind, status } = error;
  return kind === 'status' && status !== null && status >= 400 && status < 500 && status !== 429 && !accountStatuses.has(status);
}

export function isContextOverflow(error: VendorError): boolean {
  return classifyFailure(error) === 'refused' && error.report.code === contextOverflowCode;
}

/**
 * Returns true if the circuit breaker should count the failure, i.e. if the provider was unreachable, too slow or
 * broken.
 */
export function isProviderFailure(error: VendorError): boolean {
  switch (error.kind) {
    case 'connect':
      // A missing credential fails immediately, so opening the breaker wouldn't save any time.
      return !error.closedWhileSending && !error.isWithoutCredential;
    case 'timeout':
    case 'unreadable':
    case 'broken':
      return true;
    case 'status':
      // A 501 only means that the vendor doesn't support this path.
      return (error.status ?? 0) >= 500 && error.status !== 501;
    case 'stopped':
    case 'aborted':
      return false;
  }
}

const defaultRetryDelayMs = 1000;
const maxRetryDelayMs = 60_000;

/**
 * Returns how long to wait before we retry a model after a 429, if the plan has no other provider left. Null if a retry
 * is useless or would miss the deadline. `remainingMs` is the time until the deadline, or null if there's no deadline.
 */
export function retryDelay(error: VendorError, remainingMs: number | null): number | null {
  if (error.retryAfterMs === null) return null; // spend limit or quota used up
  const waitMs = Math.min(error.retryAfterMs ?? defaultRetryDelayMs, maxRetryDelayMs);
  return remainingMs !== null && waitMs >= remainingMs ? null : waitMs;
}

/** The statuses with which vendors report that they're overloaded or that we've reached a rate limit. */
const busyStatuses: ReadonlySet<number> = new Set([429, 503, 529]);

/**
 * Returns how long a caller should wait before repeating a chain that failed because of rate limits. This is the
 * shortest delay that any of the vendors asked for. Null if an immediate retry could succeed, or if waiting doesn't
 * help.
 *
 * Only the last failure of each model counts. We ignore refusals, configuration errors and exhausted quotas, because
 * they won't change while we wait. If a vendor failed for another reason than being busy (429, 503, 529), the problem
 * may already be over, so the caller can retry immediately.
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

/** Returns true if repeating the chain is useless, e.g. because every vendor rejects the gateway's key. */
export function isLastingFailure(failures: readonly Failure[]): boolean {
  return failures.length > 0 && lastErrorsOf(failures).every(isLasting);
}

interface Failure {
  readonly candidate: Pick<Candidate, 'id' | 'member'>;
  readonly error: VendorError;
}

export function lastErrorsOf(failures: readonly Failure[]): VendorError[] {
  return [...new Map(failures.map(({ candidate: { id, member }, error }) => [member ? `${member.key} ${id}` : id, error])).values()];
}

/**
 * Returns true if the failure persists until somebody changes the request or the configuration. 408 and 409 don't
 * count, because they're caused by short delays at the vendor.
 */
function isLasting(error: VendorError): boolean {
  const { kind, status } = error;
  if (classifyFailure(error) === 'refused') return true;
  return kind === 'status' && status !== null && providerStatuses.has(status) && status !== 408 && status !== 409;
}
