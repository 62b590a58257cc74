/**
 * Tries the candidates of a plan in order until one succeeds. `classify-failure.ts` decides what each failure means.
 *
 * After a vendor's 429, the candidates of other providers come first. If there are none left, we retry the same model
 * once after the delay that the vendor asked for, and then try the next one. If a keep-alive connection was closed
 * while we sent a request, we repeat it once with the same model. After a prompt was too long, we skip models whose
 * window isn't larger.
 *
 * @see docs/architecture/routing-and-failover.md
 */
import type { Candidate } from '../core/candidate.ts';
import { VendorError } from '../core/errors.ts';
import { classifyFailure, isContextOverflow, retryDelay } from './classify-failure.ts';
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
  /** The delay after which we retry the last candidate. Null if we go on to the next one. */
  let retryMs: number | null = null;
  for (;;) {
    const isRetry: boolean = retryMs !== null;
    const waitMs: number = retryMs ?? 0;
    const candidate: Candidate | undefined = isRetry ? failures.at(-1)?.candidate : queue.shift();
    if (!candidate) return { kind: 'exhausted', failures };
    retryMs = null;
    const remaining = chain.remainingMs();
    if (remaining !== null && remaining <= 0) return { kind: 'aborted', failures, cut: null };
    if (failures.length > 0 && !(await chain.reserveNext())) return { kind: 'exhausted', failures };
    try {
      if (isRetry) await chain.pause(waitMs);
      return { kind: 'responded', response: await chain.attempt(candidate, waitMs, queue.length === 0) };
    } catch (error) {
      if (!(error instanceof VendorError)) throw error;
      const kind = classifyFailure(error);
      if (kind === 'aborted') return { kind: 'aborted', failures, cut: { candidate, error } };
      failures.push({ candidate, error });
      if (error.closedWhileSending && !isRetry) {
        retryMs = 0;
        continue;
      }
      if (isContextOverflow(error)) {
        const window = exceededWindow(candidate, error);
        queue = queue.filter((other) => mayBeLarger(other, window));
      }
      if (kind !== 'rate_limited') continue;
      const isSameProvider = (other: Candidate): boolean => other.provider === candidate.provider;
      if (queue.some((other) => !isSameProvider(other))) {
        queue = [...queue.filter((other) => !isSameProvider(other)), ...queue.filter(isSameProvider)];
      } else if (!isRetry) {
        retryMs = retryDelay(error, chain.remainingMs());
      }
    }
  }
}
