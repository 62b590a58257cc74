/**
 * Goes along a chain of candidates until one answers (specification 7.1, decisions 4). The loop only does what `verdict.ts` judges.
 *
 * A vendor's 429: candidates of other vendors come first; where none is left, the pause the vendor asks for, the same model once
 * more, then the next one.
 */
import type { Candidate } from '../core/call.ts';
import { VendorError } from '../core/errors.ts';
import { classifyFailure, retryDelay } from './classify-failure.ts';

export interface AttemptFailure {
  readonly candidate: Candidate;
  readonly error: VendorError;
}

export type ChainResult<Answer> =
  | { readonly kind: 'answered'; readonly response: Answer }
  /** Every candidate has failed, in the order of `failures`. */
  | { readonly kind: 'exhausted'; readonly failures: readonly AttemptFailure[] }
  /** Our own side stopped the chain: the deadline passed, the caller left, or the service ends. `cut` was under way then. */
  | { readonly kind: 'aborted'; readonly failures: readonly AttemptFailure[]; readonly cut: AttemptFailure | null };

export interface Chain<Answer> {
  readonly candidates: readonly Candidate[];
  /** One attempt, after a pause of `waitMs`. Throws VendorError; anything else is a fault of ours and ends the chain. */
  attempt(candidate: Candidate, waitMs: number): Promise<Answer>;
  /** What the call's deadline leaves, null without one. */
  remainingMs(): number | null;
  /** Pauses; throws VendorError `aborted` when our side stops the call meanwhile. */
  pause(waitMs: number): Promise<void>;
}

/** A place in the queue: a candidate, or the one that is asked again after its 429. */
interface QueuedAttempt {
  readonly candidate: Candidate;
  readonly waitMs: number;
  readonly isRetry: boolean;
}

export async function runChain<Answer>(chain: Chain<Answer>): Promise<ChainResult<Answer>> {
  const failures: AttemptFailure[] = [];
  let queue: QueuedAttempt[] = chain.candidates.map((candidate) => ({ candidate, waitMs: 0, isRetry: false }));
  for (;;) {
    const turn = queue.shift();
    if (!turn) return { kind: 'exhausted', failures };
    const remaining = chain.remainingMs();
    if (remaining !== null && remaining <= 0) return { kind: 'aborted', failures, cut: null };
    const { candidate, waitMs, isRetry } = turn;
    try {
      if (isRetry) await chain.pause(waitMs);
      return { kind: 'answered', response: await chain.attempt(candidate, waitMs) };
    } catch (error) {
      if (!(error instanceof VendorError)) throw error;
      const kind = classifyFailure(error);
      if (kind === 'aborted') return { kind: 'aborted', failures, cut: { candidate, error } };
      failures.push({ candidate, error });
      if (kind !== 'rate_limited') continue;
      const isOwn = (next: QueuedAttempt): boolean => next.candidate.provider === candidate.provider;
      if (queue.some((next) => !isOwn(next))) {
        queue = [...queue.filter((next) => !isOwn(next)), ...queue.filter(isOwn)];
      } else if (!isRetry) {
        const pauseMs = retryDelay(error, chain.remainingMs());
        if (pauseMs !== null) queue.unshift({ candidate, waitMs: pauseMs, isRetry: true });
      }
    }
  }
}
