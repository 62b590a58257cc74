/**
 * Tries the candidates of a plan in order until one succeeds. `classify-failure.ts` decides what each failure means.
 *
 * After a 429, we first try the candidates of other providers. If there are none left, or if their dialects can't
 * express the request, we wait as long as the vendor asked, retry the model once, and then move on. If a keep-alive
 * connection closes while we're sending a request, we repeat the request once with the same model. If the prompt was
 * too long, we skip all models whose window isn't larger.
 *
 * If a provider has a pool, each member of the pool is a separate candidate for a model. After a member's 429, we only
 * try members of other accounts, and only after the candidates of other providers.
 *
 * @see docs/architecture/routing-and-failover.md
 */
import type { Candidate } from '../core/candidate.ts';
import { VendorError } from '../core/errors.ts';
import { classifyFailure, type FailureKind, isContextOverflow, retryDelay } from './classify-failure.ts';
import { exceededWindow, mayBeLarger } from './context-window.ts';

export interface AttemptFailure {
  readonly candidate: Candidate;
  readonly error: VendorError;
}

export type ChainResult<Success> =
  | { readonly kind: 'responded'; readonly response: Success }
  /** All candidates have failed. `failures` are in the order of the attempts. */
  | { readonly kind: 'exhausted'; readonly failures: readonly AttemptFailure[] }
  /**
   * The deadline passed, the caller disconnected or the service is stopping. `cut` is the attempt that was interrupted,
   * or null if none was running.
   */
  | { readonly kind: 'aborted'; readonly failures: readonly AttemptFailure[]; readonly cut: AttemptFailure | null };

export interface Chain<Success> {
  readonly candidates: readonly Candidate[];
  /**
   * True if the call refers to state that only one member of the pool has. In this case, we try the other members even
   * if one refuses the call.
   */
  readonly hasStateAtMember?: boolean;
  /**
   * Makes one attempt after waiting for `waitMs`. `isLast` is true if there are no other candidates. Throws a
   * VendorError. Any other error is a bug and ends the chain.
   */
  attempt(candidate: Candidate, waitMs: number, isLast: boolean): Promise<Success>;
  /**
   * Reserves the cost of the next attempt, on top of what the failed ones may cost. Returns false if a ceiling has no
   * quota left, which ends the chain.
   */
  reserveNext(): Promise<boolean>;
  /** Returns the time until the call's deadline, or null if it has none. */
  remainingMs(): number | null;
  /** Throws a VendorError of kind `aborted` if the call is cancelled while waiting. */
  pause(waitMs: number): Promise<void>;
}

export async function runChain<Success>(chain: Chain<Success>): Promise<ChainResult<Success>> {
  const failures: AttemptFailure[] = [];
  let queue = chain.candidates.slice();
  /** The candidate to retry. Null to move on to the next one. */
  let retry: Attempt | null = null;
  /** The candidate that sent the last 429, if we haven't called another model or retried it since. */
  let limited: Candidate | null = null;
  for (;;) {
    const attempt: Attempt = retry ?? { candidate: queue.shift(), waitMs: 0, reason: 'next' };
    const { candidate, waitMs, reason } = attempt;
    if (!candidate) return { kind: 'exhausted', failures };
    retry = null;
    const remaining = chain.remainingMs();
    if (remaining !== null && remaining <= 0) return { kind: 'aborted', failures, cut: null };
    if (failures.length > 0 && !(await chain.reserveNext())) return { kind: 'exhausted', failures };
    try {
      if (reason !== 'next') await chain.pause(waitMs);
      return { kind: 'responded', response: await chain.attempt(candidate, waitMs, queue.length === 0) };
    } catch (error) {
      if (!(error instanceof VendorError)) throw error;
      const kind = classifyFailure(error);
      if (kind === 'aborted') return { kind: 'aborted', failures, cut: { candidate, error } };
      failures.push({ candidate, error });
      if (error.closedWhileSending && reason === 'next') {
        retry = { candidate, waitMs: 0, reason: 'connection_closed' };
        continue;
      }
      if (isContextOverflow(error)) {
        const window = exceededWindow(candidate, error);
        queue = queue.filter((other) => mayBeLarger(other, window));
      }
      if (candidate.member)
        queue = withoutUselessMembers(queue, candidate, { kind, failures, hasStateAtMember: chain.hasStateAtMember ?? false });
      if (kind === 'rate_limited') limited = reason === 'rate_limited' ? null : candidate;
      else if (!error.isUntranslatable && (candidate.id !== limited?.id || kind === 'refused')) limited = null;
      if (limited === null) continue;
      const { provider, id } = limited;
      const isSameProvider = (other: Candidate): boolean => other.provider === provider;
      const isSameModel = (other: Candidate): boolean => other.id === id;
      if (queue.some((other) => !isSameProvider(other))) {
        queue = [...queue.filter((other) => !isSameProvider(other)), ...queue.filter(isSameProvider)];
      } else if (queue.some(isSameModel)) {
        queue = [...queue.filter(isSameModel), ...queue.filter((other) => !isSameModel(other))];
      } else {
        retry = shortestRetry(failures, limited, chain.remainingMs());
        limited = null;
      }
    }
  }
}

interface Attempt {
  readonly candidate: Candidate | undefined;
  readonly waitMs: number;
  /** `next` moves on to the next candidate of the plan. The other reasons retry the same one. */
  readonly reason: 'next' | 'connection_closed' | 'rate_limited';
}

/** If this many members of a pool fail, the vendor itself is probably in trouble, so we try other models first. */
const maxFailedMembers = 2;

/**
 * After a member of a pool has failed, removes those candidates that would fail as well. If one member refuses a
 * request, all the others would refuse it too. A 429 means that we've reached the rate limit of an account, which all
 * members with that account share.
 */
function withoutUselessMembers(
  queue: readonly Candidate[],
  { id, member }: Candidate,
  { kind, failures, hasStateAtMember }: { kind: FailureKind; failures: readonly AttemptFailure[]; hasStateAtMember: boolean },
): Candidate[] {
  const isSameModel = (other: Candidate): boolean => other.id === id;
  if (kind === 'rate_limited') return queue.filter((other) => !isSameModel(other) || other.member?.account !== member?.account);
  // A 400 or 404 may only mean that this pool member doesn't have the state that the call refers to, so keep the other
  // members.
  if (hasStateAtMember) return [...queue];
  if (kind === 'refused') return queue.filter((other) => !isSameModel(other));
  if (failures.filter(({ candidate }) => isSameModel(candidate)).length < maxFailedMembers) return [...queue];
  return [...queue.filter((other) => !isSameModel(other)), ...queue.filter(isSameModel)];
}

/**
 * Returns how to retry a model after a 429, or null if that's useless. If several pool members responded with a 429,
 * retries the one with the shortest delay.
 */
function shortestRetry(failures: readonly AttemptFailure[], { id }: Candidate, remainingMs: number | null): Attempt | null {
  const delays = failures.flatMap(({ candidate, error }) => {
    const waitMs = candidate.id === id && classifyFailure(error) === 'rate_limited' ? retryDelay(error, remainingMs) : null;
    return waitMs === null ? [] : [{ candidate, waitMs, reason: 'rate_limited' as const }];
  });
  return delays.reduceRight<Attempt | null>((best, delay) => (best === null || delay.waitMs < best.waitMs ? delay : best), null);
}
