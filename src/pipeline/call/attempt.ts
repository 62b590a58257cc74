/**
 * Sends a call to its candidates in order until one responds. Each attempt is journaled before it is sent.
 */
import type { Attempt, Call, CallMetadata, Outcome } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { VendorError } from '../../core/errors.ts';
import { noTokens } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import { UntranslatableError } from '../../dialects/contract/untranslatable.ts';
import type { RequestChanges } from '../../dialects/translate/request-changes.ts';
import type { Breakers } from '../../failover/breaker.ts';
import type { Chain } from '../../failover/chain.ts';
import { classifyFailure } from '../../failover/classify-failure.ts';
import type { Journal } from '../../journal/journal.ts';
import type { VendorHttpClient } from '../../vendors/http-client.ts';
import type { VendorResponse } from '../../vendors/text.ts';
import { sendToVendor } from '../../vendors/text.ts';
import type { Provider } from '../../vendors/vendor.ts';
import type { CallCancellation } from './cancellation.ts';
import { adapterFor } from './dialect-adapter.ts';
import { estimateRequest, isCutOff } from './estimate.ts';
import { forwardedHeadersFor } from './forwarded-headers.ts';
import { createIdempotencyKeyFilter } from './idempotency.ts';
import { reportAttempt } from './report-attempt.ts';
import { createResponsesRoutes, type ResponsesForm } from './responses-routes.ts';
import { computeCharge, type WinningAttempt } from './settle.ts';
import { reservedUsage } from './usage-bounds.ts';

export interface Responded {
  readonly response: VendorResponse;
  readonly attempt: WinningAttempt;
  /** What became of members that the vendor did not get as they were sent; null when the request was not translated. */
  readonly changes: RequestChanges | null;
  /** The attempts before it. */
  readonly failed: readonly Attempt[];
}

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

/** The chain of a call, and what became of its attempts. */
export interface AttemptChain extends Chain<Responded> {
  readonly request: ChainRequest;
  readonly failed: Attempt[];
  readonly headersFor: ReturnType<typeof createIdempotencyKeyFilter>;
  attempts: number;
  /** Whether the call is in the journal, and so must be settled. */
  isJournaled: boolean;
  /** The vendor's response if it couldn't be converted because of an unexpected error, which ends the chain. */
  unsent: Responded | null;
}

interface AttemptRequest {
  readonly candidate: Candidate;
  readonly waitMs: number;
  readonly isLast: boolean;
  readonly responsesForm: ResponsesForm;
}

export function createAttemptChain({ httpClient, findProvider, breakers, journal, clock }: AttemptDeps) {
  const responsesRoutes = createResponsesRoutes(clock);
  const now = (): number => clock.now();

  function report({ call }: ChainRequest, { provider }: Candidate, error: VendorError | null): void {
    reportAttempt(breakers, { projectId: call.caller.projectId, provider, error, now: clock.now() });
  }

  async function send(chain: AttemptChain, { candidate, waitMs, isLast, responsesForm }: AttemptRequest): Promise<Responded> {
    const { request, headersFor } = chain;
    const { call, metadata, cancellation } = request;
    chain.attempts += 1;
    const n = chain.attempts;
    const startedAt = clock.now();
    const record = { n, provider: candidate.provider, model: candidate.model, startedAt };
    await (chain.isJournaled ? journal.attempt(call.id, record) : journal.open(metadata, record));
    chain.isJournaled = true;
    let isSent = false;
    let received: Responded | null = null;
    try {
      const provider = findProvider(candidate.provider);
      if (!provider) throw new VendorError('connect', 'the provider is no longer configured');
      const mayOmitTools = !hasLaterNative(request.candidates, candidate);
      const { codec, body, changes, toCallerResponse } = adapterFor(call, candidate, provider, responsesForm, mayOmitTools);
      isSent = true;
      const vendorResponse = await sendToVendor(httpClient, {
        provider,
        codec,
        body,
        stream: call.stream,
        mayFailOver: !isLast,
        forwardedHeaders: headersFor(candidate, forwardedHeadersFor(codec.route, call)),
        now,
        signal: cancellation.signal,
      });
      const attempt = { n, candidate, waitMs, startedAt, status: vendorResponse.status, firstByteMs: clock.now() - startedAt };
      received = { response: vendorResponse, attempt, changes, failed: chain.failed };
      const response = toCallerResponse(vendorResponse);
      report(request, candidate, null);
      return response === vendorResponse ? received : { ...received, response };
    } catch (error) {
      const vendorError = error instanceof VendorError ? error : null;
      if (vendorError || received) report(request, candidate, vendorError);
      if (!vendorError && received) {
        chain.unsent = received;
        throw error;
      }
      const outcome = vendorError ? attemptOutcome(vendorError, cancellation) : 'failed';
      const durationMs = clock.now() - startedAt;
      // If a vendor times out on a plain response, it keeps generating and bills the result even though nobody waits
      // for it.
      const isLate = vendorError?.kind === 'timeout' && !call.stream;
      const isBilled = vendorError ? (isCutOff(outcome) || isLate) && !vendorError.isUnsent : isSent;
      chain.failed.push({
        ...record,
        // An untranslatable request was never sent, so it has no vendor status.
        status: vendorError && !(vendorError.cause instanceof UntranslatableError) ? vendorError.status : null,
        outcome,
        waitMs,
        firstByteMs: null,
        durationMs,
        ...chargeFailed(call, candidate, { received, isBilled, durationMs }),
      });
      throw error;
    }
  }

  /** Its attempts throw `budget_unavailable` when the journal cannot be written: a call that cannot be recorded is not sent. */
  return function toChain(request: ChainRequest): AttemptChain {
    const { call, candidates, cancellation } = request;
    const chain: AttemptChain = {
      request,
      candidates,
      attempt: (candidate, waitMs, isLast) =>
        call.route === 'responses'
          ? responsesRoutes.attempt(candidate, waitMs, (responsesForm, wait) =>
              send(chain, { candidate, waitMs: wait, isLast, responsesForm }),
            )
          : send(chain, { candidate, waitMs, isLast, responsesForm: 'native' }),
      remainingMs: cancellation.remainingMs,
      pause: cancellation.pause,
      failed: [],
      headersFor: createIdempotencyKeyFilter(),
      attempts: 0,
      isJournaled: false,
      unsent: null,
    };
    return chain;
  };
}

/** Reports whether a candidate after this one has the route of responses, and with it the tools that OpenAI runs. */
function hasLaterNative(candidates: readonly Candidate[], candidate: Candidate): boolean {
  return candidates.indexOf(candidate) < candidates.findLastIndex(({ responses }) => responses === 'native');
}

/**
 * Computes the charge of a failed attempt. If the response can't be translated, we charge what the vendor reported.
 * If there is no response but the vendor may bill the attempt, we charge an estimate.
 */
function chargeFailed(
  call: Call,
  candidate: Candidate,
  { received, isBilled, durationMs }: { readonly received: Responded | null; readonly isBilled: boolean; readonly durationMs: number },
): Pick<Attempt, 'tokens' | 'costNanos'> {
  if (received?.response.kind === 'plain') {
    const { tokens, costNanos } = computeCharge(call, candidate, received.response.summary, 'failed');
    return { tokens, costNanos };
  }
  if (!isBilled) return { tokens: noTokens, costNanos: 0 };
  const { tokens, costNanos } = reservedUsage(call, candidate);
  if (isBackground(call)) return { tokens, costNanos };
  return estimateRequest(call, candidate.price, { durationMs, maxOutputTokens: tokens.output });
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

/**
 * Reports whether the call asks for a background response (`background: true` on responses). The vendor keeps
 * generating after the gateway has seen the last byte, and bills all of it.
 */
function isBackground({ route, spans }: Call): boolean {
  return route === 'responses' && spans.members.get('background')?.kind === 'true';
}
