/**
 * Sends a call to its candidates in order until one responds. Each attempt is journaled before it is sent.
 */
import type { Attempt, Call, CallMetadata, Candidate, Outcome } from '../../core/call.ts';
import { GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import { noTokens } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import { UntranslatableError } from '../../dialects/contract/untranslatable.ts';
import type { Breakers } from '../../failover/breaker.ts';
import { type ChainResult, runChain } from '../../failover/chain.ts';
import { classifyFailure } from '../../failover/classify-failure.ts';
import type { Journal } from '../../journal/journal.ts';
import type { VendorHttpClient } from '../../vendors/http-client.ts';
import type { VendorResponse } from '../../vendors/text.ts';
import { sendToVendor } from '../../vendors/text.ts';
import type { Provider } from '../../vendors/vendor.ts';
import type { CallCancellation } from './cancellation.ts';
import { type ChainFailure, toChainFailure } from './chain-error.ts';
import { adapterFor } from './dialect-adapter.ts';
import { estimateRequest, isCutOff } from './estimate.ts';
import { forwardedHeadersFor } from './forwarded-headers.ts';
import { createIdempotencyKeyFilter } from './idempotency.ts';
import { reportAttempt } from './report-attempt.ts';
import { createResponsesRoutes, type ResponsesForm } from './responses-routes.ts';

/** The attempt that got a response; it ends with the response. */
export interface WinningAttempt {
  readonly n: number;
  readonly candidate: Candidate;
  readonly waitMs: number;
  readonly startedAt: number;
  readonly status: number;
  readonly firstByteMs: number;
}

interface Responded {
  readonly response: VendorResponse;
  readonly attempt: WinningAttempt;
}

export type ChainOutcome = { readonly failed: readonly Attempt[] } & (
  | { readonly kind: 'responded'; readonly response: VendorResponse; readonly attempt: WinningAttempt }
  | ({ readonly kind: 'failed' } & ChainFailure)
);

export interface ChainRequest {
  readonly call: Call;
  readonly metadata: CallMetadata;
  readonly candidates: readonly Candidate[];
  readonly cancellation: CallCancellation;
}

export interface AttemptDeps {
  readonly httpClient: VendorHttpClient;
  readonly findProvider: (name: string) => Provider | undefined;
  readonly breakers: Breakers;
  readonly journal: Journal;
  readonly clock: Clock;
}

export function createAttemptChain({ httpClient, findProvider, breakers, journal, clock }: AttemptDeps) {
  const responsesRoutes = createResponsesRoutes(clock);
  /** Throws `budget_unavailable` when the journal cannot be written: a call that cannot be recorded is not sent. */
  return async function attemptChain({ call, metadata, candidates, cancellation }: ChainRequest): Promise<ChainOutcome> {
    const failed: Attempt[] = [];
    const headersFor = createIdempotencyKeyFilter();
    let n = 0;
    let isJournaled = false;
    const report = ({ provider }: Candidate, error: VendorError | null): void =>
      reportAttempt(breakers, { projectId: call.caller.projectId, provider, error, now: clock.now() });

    const send = async (candidate: Candidate, waitMs: number, isLast: boolean, responsesForm: ResponsesForm): Promise<Responded> => {
      n += 1;
      const startedAt = clock.now();
      const record = { n, provider: candidate.provider, model: candidate.model, startedAt };
      await (isJournaled ? journal.attempt(call.id, record) : journal.open(metadata, record));
      isJournaled = true;
      try {
        const provider = findProvider(candidate.provider);
        if (!provider) throw new VendorError('connect', 'the provider is no longer configured');
        const { codec, body, toCallerResponse } = adapterFor(call, candidate, provider, responsesForm);
        const vendorResponse = await sendToVendor(httpClient, {
          provider,
          codec,
          body,
          stream: call.stream,
          mayFailOver: !isLast,
          forwardedHeaders: headersFor(candidate, forwardedHeadersFor(codec.route, call)),
          now: () => clock.now(),
          ...(cancellation.signal ? { signal: cancellation.signal } : {}),
        });
        const response = toCallerResponse(vendorResponse);
        report(candidate, null);
        return { response, attempt: { n, candidate, waitMs, startedAt, status: response.status, firstByteMs: clock.now() - startedAt } };
      } catch (error) {
        if (!(error instanceof VendorError)) throw error;
        report(candidate, error);
        const outcome = attemptOutcome(error, cancellation);
        failed.push({
          ...record,
          // An untranslatable request was never sent, so it has no vendor status.
          status: error.cause instanceof UntranslatableError ? null : error.status,
          outcome,
          waitMs,
          firstByteMs: null,
          durationMs: clock.now() - startedAt,
          ...(isCutOff(outcome) && !error.isUnsent ? estimateRequest(call, candidate.price) : { tokens: noTokens, costNanos: 0 }),
        });
        throw error;
      }
    };

    const attempt = (candidate: Candidate, waitMs: number, isLast: boolean): Promise<Responded> =>
      call.route === 'responses'
        ? responsesRoutes.attempt(candidate, waitMs, (form, wait) => send(candidate, wait, isLast, form))
        : send(candidate, waitMs, isLast, 'native');

    let result: ChainResult<Responded>;
    try {
      result = await runChain({ candidates, attempt, remainingMs: cancellation.remainingMs, pause: cancellation.pause });
    } catch (cause) {
      if (!isJournaled) throw cause;
      // The call is already in the journal, so it is settled like any other failure.
      const error = cause instanceof GatewayError ? cause : gatewayError('internal_error', { cause });
      return { kind: 'failed', error, outcome: 'failed', failed };
    } finally {
      cancellation.clearDeadline();
    }
    switch (result.kind) {
      case 'responded':
        return { kind: 'responded', ...result.response, failed };
      case 'exhausted':
      case 'aborted':
        return { kind: 'failed', ...toChainFailure(result, cancellation), failed };
    }
  };
}

function attemptOutcome(error: VendorError, cancellation: CallCancellation): Outcome {
  switch (classifyFailure(error)) {
    case 'refused':
      return 'refused';
    case 'aborted':
      if (error.kind === 'stopped') return 'unknown';
      return cancellation.cancelledBy() === 'deadline' ? 'deadline' : 'client_left';
    case 'failed':
    case 'rate_limited':
      return 'failed';
  }
}
