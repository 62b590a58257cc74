/**
 * Tries the candidates of a plan in order until one succeeds. `classify-failure.ts` decides what each failure means.
 *
 * After a vendor's 429, the candidates of other providers come first. If there are none left, we retry the same model
 * once after the delay that the vendor asked for, and then try the next one. If a keep-alive connection was closed
 * while we sent a request, we repeat it once with the same model. After a prompt was too long, we skip models whose
 * window isn't larger.
 *
 * If a provider has a pool, a model has a candidate for each of its members. After a member's 429 we only try members of
 * other accounts, also after the candidates of other providers.
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
  /** All candidates failed. `failures` are in the order of the attempts. */
  | { readonly kind: 'exhausted'; readonly failures: readonly AttemptFailure[] }
  /**
   * The deadline passed, the caller disconnected or the service is stopping. `cut` is the attempt that was in progress.
   */
  | { readonly kind: 'aborted'; readonly failures: readonly AttemptFailure[]; readonly cut: AttemptFailure | null };

export interface Chain<Success> {
  readonly candidates: readonly Candidate[];
  /** True if the call refers to state that one member of a pool has, so that others may refuse it. */
  readonly hasStateAtMember?: boolean;
  /**
   * Makes one attempt, after a delay of `waitMs`. `isLast` is true if no other candidate is left. Throws a VendorError.
   * Any other error is a bug and ends the chain.
   */
  attempt(candidate: Candidate, waitMs: number, isLast: boolean): Promise<Success>;
  /**
   * Reserves what the failed attempts may cost, in addition to the next one. Returns false if a ceiling has nothing
   * left, which ends the chain.
   */
  reserveNext(): boolean | Promise<boolean>;
  /** Returns the time until the call's deadline. Null if the call has no deadline. */
  remainingMs(): number | null;
  /** Waits. Throws VendorError `aborted` if the call is cancelled in the meantime. */
  pause(waitMs: number): Promise<void>;
}

export async function runChain<Success>(chain: Chain<Success>): Promise<ChainResult<Success>> {
  const failures: AttemptFailure[] = [];
  let queue = chain.candidates.slice();
  /** Null if we go on to the next candidate. */
  let retry: Attempt | null = null;
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
      if (kind !== 'rate_limited') continue;
      const isSameProvider = (other: Candidate): boolean => other.provider === candidate.provider;
      const isSameModel = (other: Candidate): boolean => other.id === candidate.id;
      if (queue.some((other) => !isSameProvider(other))) {
        queue = [...queue.filter((other) => !isSameProvider(other)), ...queue.filter(isSameProvider)];
      } else if (queue.some(isSameModel)) {
        queue = [...queue.filter(isSameModel), ...queue.filter((other) => !isSameModel(other))];
      } else if (reason !== 'rate_limited') {
        retry = shortestRetry(failures, candidate, chain.remainingMs());
      }
    }
  }
}

interface Attempt {
  /** Undefined if none is left. */
  readonly candidate: Candidate | undefined;
  readonly waitMs: number;
  /** Why we try this candidate: it's the next one, or we retry it for one of the other reasons. */
  readonly reason: 'next' | 'connection_closed' | 'rate_limited';
}

/** After this many members have failed, the vendor has a problem that other members probably share. */
const maxFailedMembers = 2;

/**
 * Returns the queue after a member of a pool has failed. A member can't serve what another one has refused, and has the
 * rate limit of the other members of its account.
 */
function withoutUselessMembers(
  queue: readonly Candidate[],
  { id, member }: Candidate,
  { kind, failures, hasStateAtMember }: { kind: FailureKind; failures: readonly AttemptFailure[]; hasStateAtMember: boolean },
): Candidate[] {
  const isSameModel = (other: Candidate): boolean => other.id === id;
  if (kind === 'rate_limited') return queue.filter((other) => !isSameModel(other) || other.member?.account !== member?.account);
  // Vendors respond with a 400 or a 404 if they don't have the state.
  if (hasStateAtMember) return [...queue];
  if (kind === 'refused') return queue.filter((other) => !isSameModel(other));
  if (failures.filter(({ candidate }) => isSameModel(candidate)).length < maxFailedMembers) return [...queue];
  return [...queue.filter((other) => !isSameModel(other)), ...queue.filter(isSameModel)];
}

/**
 * Returns the retry of a model after a 429. Other members of its pool may have responded with a 429 before, and we retry
 * the one that asked for the shortest delay. Null if the model isn't retried.
 */
function shortestRetry(failures: readonly AttemptFailure[], { id }: Candidate, remainingMs: number | null): Attempt | null {
  const delays = failures.flatMap(({ candidate, error }) => {
    const waitMs = candidate.id === id && classifyFailure(error) === 'rate_limited' ? retryDelay(error, remainingMs) : null;
    return waitMs === null ? [] : [{ candidate, waitMs, reason: 'rate_limited' as const }];
  });
  return delays.reduceRight<Attempt | null>((best, delay) => (best === null || delay.waitMs < best.waitMs ? delay : best), null);
}
