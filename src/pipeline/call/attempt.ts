/**
 * Asks the candidates of a call, in order, until one answers. Each try is journalled before it is made and becomes an Attempt. The
 * only place where a VendorError becomes a gateway error.
 */
import type { Attempt, Call, CallFacts, Candidate, Outcome } from '../../core/call.ts';
import { GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import { noTokens } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import { Untranslatable } from '../../dialects/contract/untranslatable.ts';
import type { Breakers } from '../../failover/breaker.ts';
import type { Failure } from '../../failover/chain.ts';
import { runChain } from '../../failover/chain.ts';
import { isProviderFault, kindOf, waitBeforeRetry } from '../../failover/classify-failure.ts';
import type { Journal } from '../../journal/journal.ts';
import type { VendorDoor } from '../../vendors/http-client.ts';
import type { VendorAnswer } from '../../vendors/text.ts';
import { askVendor } from '../../vendors/text.ts';
import type { Provider } from '../../vendors/vendor.ts';
import type { CallControl } from './cancellation.ts';
import { speakTo } from './dialect-adapter.ts';
import { estimateAsked } from './estimate.ts';
import { createIdempotency } from './idempotency.ts';

/** The attempt that answered; it ends with its answer. */
export interface OpenAttempt {
  readonly n: number;
  readonly candidate: Candidate;
  readonly waitMs: number;
  readonly startedAt: number;
  readonly status: number;
  readonly firstByteMs: number;
}

export type ChainOutcome =
  | { readonly kind: 'answered'; readonly answer: VendorAnswer; readonly attempt: OpenAttempt; readonly failed: readonly Attempt[] }
  | { readonly kind: 'failed'; readonly error: GatewayError; readonly outcome: Outcome; readonly failed: readonly Attempt[] };

export interface ChainRequest {
  readonly call: Call;
  readonly facts: CallFacts;
  readonly candidates: readonly Candidate[];
  readonly control: CallControl;
}

export interface AttemptDeps {
  readonly door: VendorDoor;
  readonly findProvider: (name: string) => Provider | undefined;
  readonly breakers: Breakers;
  readonly journal: Journal;
  readonly clock: Clock;
}

export function createAttemptChain({ door, findProvider, breakers, journal, clock }: AttemptDeps) {
  /** Throws `budget_unavailable` when the journal cannot be written: a call that cannot be recorded is not made. */
  return async function attemptChain({ call, facts, candidates, control }: ChainRequest): Promise<ChainOutcome> {
    const failed: Attempt[] = [];
    const headersFor = createIdempotency();
    let n = 0;
    let isOpened = false;

    const tryOne = async (candidate: Candidate, waitMs: number): Promise<{ answer: VendorAnswer; attempt: OpenAttempt }> => {
      n += 1;
      const startedAt = clock.now();
      const record = { n, provider: candidate.provider, model: candidate.model, startedAt };
      await (isOpened ? journal.attempt(call.id, record) : journal.open(facts, record));
      isOpened = true;
      try {
        const provider = findProvider(candidate.provider);
        if (!provider) throw new VendorError('connect', 'the provider is no longer configured');
        const { rules, body, passedHeaders, understand } = speakTo(call, candidate, provider);
        const asked = await askVendor(door, {
          provider,
          rules,
          body,
          stream: call.stream,
          passedHeaders: headersFor(candidate, passedHeaders),
          now: () => clock.now(),
          ...(control.signal ? { signal: control.signal } : {}),
        });
        const answer = understand(asked);
        breakers.succeeded(call.caller.projectId, candidate.provider);
        return { answer, attempt: { n, candidate, waitMs, startedAt, status: answer.status, firstByteMs: clock.now() - startedAt } };
      } catch (error) {
        if (!(error instanceof VendorError)) throw error;
        judgeProvider(call.caller.projectId, candidate.provider, error);
        const outcome = outcomeOf(error, control);
        failed.push({
          ...record,
          // Nobody answered where nobody was asked.
          status: error.cause instanceof Untranslatable ? null : error.status,
          outcome,
          waitMs,
          firstByteMs: null,
          durationMs: clock.now() - startedAt,
          // A vendor that was left at the service's end may go on, and bill: better charged by estimate than not at all.
          ...(outcome === 'unknown' ? estimateAsked(call, candidate.price) : { tokens: noTokens, costNanos: 0 }),
        });
        throw error;
      }
    };

    const result = await runChain({ candidates, tryOne, remainingMs: control.remainingMs, pause: control.pause }).catch(
      (error: unknown) => {
        if (!isOpened) throw error;
        // The call stands in the journal already, so it is settled like any other failure.
        return {
          kind: 'faulted' as const,
          error: error instanceof GatewayError ? error : gatewayError('internal_error', { cause: error }),
        };
      },
    );
    control.endDeadline();
    switch (result.kind) {
      case 'answered':
        return { kind: 'answered', ...result.answer, failed };
      case 'faulted':
        return { kind: 'failed', error: result.error, outcome: 'failed', failed };
      case 'exhausted':
        return {
          kind: 'failed',
          ...(isCutShort(result.failures, control) ? stoppedError : exhaustedError)(result.failures, control),
          failed,
        };
      case 'aborted':
        return { kind: 'failed', ...(cutByStop(result.cut) ?? stoppedError(result.failures, control)), failed };
    }
  };

  /** Each attempt counts exactly once, here; the caller's own refusals, deadline and leaving never count (lessons 19). */
  function judgeProvider(projectId: string, provider: string, error: VendorError): void {
    if (isProviderFault(error)) breakers.failed(projectId, provider);
    else if (kindOf(error) === 'rate_limited' && typeof error.retryAfterMs === 'number')
      breakers.cool(projectId, provider, clock.now() + error.retryAfterMs);
  }
}

function outcomeOf(error: VendorError, control: CallControl): Outcome {
  switch (kindOf(error)) {
    case 'refused':
      return 'refused';
    case 'aborted':
      if (error.fault === 'stopped') return 'unknown';
      return control.stoppedBy() === 'deadline' ? 'deadline' : 'client_left';
    case 'failed':
    case 'rate_limited':
      return 'failed';
  }
}

/** The last model was to be waited for and asked once more, and the deadline does not leave that: it would be over in the wait. */
function isCutShort(failures: readonly Failure[], control: CallControl): boolean {
  const last = failures.at(-1);
  if (!last || kindOf(last.error) !== 'rate_limited') return false;
  const wasRetry = failures.at(-2)?.candidate === last.candidate;
  return !wasRetry && waitBeforeRetry(last.error, null) !== null && waitBeforeRetry(last.error, control.remainingMs()) === null;
}

/** Every model refused: the first vendor's status and words, ours only where no vendor was asked. Otherwise the last attempt's reason. */
function exhaustedError(failures: readonly Failure[]): { error: GatewayError; outcome: Outcome } {
  const first = failures.find(({ error }) => !(error.cause instanceof Untranslatable)) ?? failures[0];
  const last = failures.at(-1);
  if (first && failures.every(({ error }) => kindOf(error) === 'refused')) {
    const { error } = first;
    const message = error.vendorMessage ?? error.message;
    return { error: gatewayError('upstream_refused', { message, status: error.status ?? 400, cause: error }), outcome: 'refused' };
  }
  const isUnreachable = failures.every(({ error }) => error.fault === 'connect');
  const message = last ? reasonOf(last) : 'every model of the plan failed';
  return { error: gatewayError('upstream_failed', { message, status: isUnreachable ? 503 : 502, cause: last?.error }), outcome: 'failed' };
}

/** The service ends while an attempt is under way; null: something else ended it. */
function cutByStop(cut: Failure | null): { error: GatewayError; outcome: Outcome } | null {
  if (cut?.error.fault !== 'stopped') return null;
  return { error: gatewayError('upstream_failed', { message: reasonOf(cut), status: 503, cause: cut.error }), outcome: 'unknown' };
}

function stoppedError(failures: readonly Failure[], control: CallControl): { error: GatewayError; outcome: Outcome } {
  if (control.stoppedBy() === 'client') {
    return { error: gatewayError('upstream_failed', { message: 'the caller left' }), outcome: 'client_left' };
  }
  const last = failures.at(-1);
  const message = `client deadline exceeded${last ? `; last attempt: ${reasonOf(last)}` : ''}`;
  const isUnreachable = failures.every(({ error }) => error.fault === 'connect');
  return {
    error: gatewayError('upstream_failed', { message, status: isUnreachable ? 503 : 502, cause: last?.error }),
    outcome: 'deadline',
  };
}

function reasonOf({ candidate, error }: Failure): string {
  return `${candidate.id}: ${error.message}`;
}
