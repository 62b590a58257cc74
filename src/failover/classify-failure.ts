/**
 * Decides what a failed attempt means for the chain of candidates. These are pure functions, and `chain.ts` acts on the
 * results.
 */
import type { Candidate } from '../core/candidate.ts';
import type { VendorError } from '../core/errors.ts';
import { contextOverflowCode } from '../core/errors.ts';

/** `refused` means that the vendor rejects the request itself. `failed` is any other failure of the vendor. */
export type FailureKind = 'refused' | 'failed' | 'rate_limited' | 'aborted';

/**
 * Statuses that are caused by the provider's configuration and not by the request, e.g. a wrong key, a missing
 * permission or an unknown path.
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

/**
 * Reports whether the failure counts against the provider's circuit breaker, i.e. whether the provider was unreachable,
 * too slow or broken.
 */
export function isProviderFailure(error: VendorError): boolean {
  switch (error.kind) {
    case 'connect':
      // Without a credential we don't wait for the provider, so there's nothing that the breaker could save.
      return !error.closedWhileSending && !error.isWithoutCredential;
    case 'timeout':
    case 'unreadable':
    case 'broken':
      return true;
    case 'status':
      // 501 means that the vendor doesn't serve this path, not that it's failing.
      return (error.status ?? 0) >= 500 && error.status !== 501;
    case 'stopped':
    case 'aborted':
      return false;
  }
}

const defaultRetryDelayMs = 1000;
const maxRetryDelayMs = 60_000;

/**
 * Returns the delay before we retry the same model after its 429, if the plan has no other provider left. Null if a
 * retry is useless or would miss the deadline. `remainingMs` is the time until the call's deadline, or null if there is
 * none.
 */
export function retryDelay(error: VendorError, remainingMs: number | null): number | null {
  if (error.retryAfterMs === null) return null; // A spend limit or quota is exhausted.
  const waitMs = Math.min(error.retryAfterMs ?? defaultRetryDelayMs, maxRetryDelayMs);
  return remainingMs !== null && waitMs >= remainingMs ? null : waitMs;
}

/** Statuses of a vendor that limits the rate or is overloaded. */
const busyStatuses: ReadonlySet<number> = new Set([429, 503, 529]);

/**
 * Returns how many milliseconds to wait before repeating a chain that failed because its vendors limited the rate. This
 * is the shortest wait that one of them asked for. Null if an immediate retry may succeed, or if waiting doesn't help.
 *
 * Only the last failure of each model counts. We ignore refusals, configuration errors and exhausted quotas, because
 * waiting doesn't change them. Any failure of a vendor that isn't busy (429, 503, 529) may already be over.
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
  readonly candidate: Pick<Candidate, 'id' | 'member'>;
  readonly error: VendorError;
}

/** Returns the last failure of each model, or of each member that we called it at. */
export function lastErrorsOf(failures: readonly Failure[]): VendorError[] {
  return [...new Map(failures.map(({ candidate: { id, member }, error }) => [member ? `${member.key} ${id}` : id, error])).values()];
}

/**
 * Reports whether only a change to the request or the configuration would help. 408 and 409 are short delays on the
 * vendor's side, so they don't count.
 */
function isLasting(error: VendorError): boolean {
  const { kind, status } = error;
  if (classifyFailure(error) === 'refused') return true;
  return kind === 'status' && status !== null && providerStatuses.has(status) && status !== 408 && status !== 409;
}
