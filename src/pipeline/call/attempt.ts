/** Sends a call to its candidates in order until one responds. Each attempt is journaled before it is sent. */
import type { Reservation } from '../../ceilings/reservation.ts';
import type { Attempt, Call, CallMetadata, Outcome } from '../../core/call.ts';
import { type Candidate, connectionKey } from '../../core/candidate.ts';
import { VendorError } from '../../core/errors.ts';
import { noTokens } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import { raceAbort } from '../../core/time-limit.ts';
import type { RequestChanges } from '../../dialects/translate/request-changes.ts';
import type { Breakers } from '../../failover/breaker.ts';
import type { Chain } from '../../failover/chain.ts';
import { classifyFailure } from '../../failover/classify-failure.ts';
import type { ContentWait, ContentWaits } from '../../failover/content-waits.ts';
import { reportAttempt } from '../../failover/report-attempt.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Logger } from '../../observability/logger.ts';
import type { PoolState } from '../../routing/pools.ts';
import type { VendorHttpClient } from '../../vendors/http-client.ts';
import { sendToVendor, type VendorResponse } from '../../vendors/text.ts';
import type { Provider } from '../../vendors/vendor.ts';
import { refersToState } from './affinity.ts';
import { recordFailure, requestReader } from './attempt-error.ts';
import type { CallCancellation } from './cancellation.ts';
import { computeCharge } from './charge.ts';
import { adapterFor, translateIfLarge } from './dialect-adapter.ts';
import { estimateRequest, isCutOff } from './estimate.ts';
import { createIdempotencyKeyFilter, forwardedHeadersFor, withDroppedFlags } from './forwarded-headers.ts';
import { createResponsesRoutes, type ResponsesForm } from './responses-routes.ts';
import type { WinningAttempt } from './settle.ts';
import { reservedUsage, usageBounds } from './usage-bounds.ts';
import { type WaitEnd, watchContent } from './watch-content.ts';

export interface Responded {
  readonly response: VendorResponse;
  readonly attempt: WinningAttempt;
  /** The request fields that we dropped or adjusted for the vendor. Null if the request wasn't translated. */
  readonly changes: RequestChanges | null;
  readonly failed: readonly Attempt[];
  /** Tells the pool that its member has finished this request. Call this when the response has ended. */
  readonly endLoad: (() => void) | undefined;
}

export interface ChainRequest {
  readonly call: Call;
  readonly metadata: CallMetadata;
  readonly candidates: readonly Candidate[];
  readonly cancellation: CallCancellation;
  /**
   * Covers a single attempt. If an attempt fails and the vendor bills it, we enlarge the reservation before the next
   * one.
   */
  readonly reservation: Reservation;
}

export interface AttemptDeps {
  readonly httpClient: VendorHttpClient;
  readonly findProvider: (name: string) => Provider | undefined;
  readonly breakers: Breakers;
  readonly pools: PoolState;
  readonly contentWaits: ContentWaits;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The candidates of a call, together with what has happened in its attempts so far. */
export interface AttemptChain extends Chain<Responded> {
  readonly request: ChainRequest;
  readonly failed: Attempt[];
  readonly headersFor: ReturnType<typeof createIdempotencyKeyFilter>;
  attempts: number;
  /** True once the call is in the journal. From then on, it has to be settled. */
  isJournaled: boolean;
  /**
   * Set if the vendor responded but we failed to convert its response because of a bug. We don't try any other
   * candidates in that case.
   */
  unsent: Responded | null;
}

interface AttemptRequest {
  readonly candidate: Candidate;
  readonly waitMs: number;
  readonly isLast: boolean;
  readonly responsesForm: ResponsesForm;
}

export function createAttemptChain({ httpClient, findProvider, breakers, pools, contentWaits, journal, clock, logger }: AttemptDeps) {
  const responsesRoutes = createResponsesRoutes(clock);
  const now = (): number => clock.now();

  /**
   * Stops waiting for the first content. Reports the attempt to the breaker, unless the breaker has already counted it
   * as slow.
   */
  function endWait({ firstContentTimeoutMs, stream }: Call, candidate: Candidate, wait: ContentWait, end: WaitEnd): void {
    contentWaits.end(wait, end === 'content');
    if (wait.isSlow || end === 'undecided') return;
    const error = end === 'content' ? null : end;
    // Don't count this timeout against the provider. The caller has chosen it, and it may be far too short.
    if (error?.kind === 'timeout' && firstContentTimeoutMs !== undefined) return;
    reportAttempt(breakers, { projectId: wait.projectId, candidate, error, isComplete: !stream, now: clock.now() });
  }

  async function send(chain: AttemptChain, { candidate, waitMs, isLast, responsesForm }: AttemptRequest): Promise<Responded> {
    const { request, headersFor } = chain;
    const { call, metadata, cancellation } = request;
    chain.attempts += 1;
    const n = chain.attempts;
    const startedAt = clock.now();
    const { provider: name, model: modelName, member } = candidate;
    const record = { n, provider: name, model: modelName, ...(member && { member: member.name }), startedAt };
    const endLoad = member && pools.loads.begin(member.key);
    try {
      await (chain.isJournaled ? journal.attempt(call.id, record) : journal.open(metadata, record));
    } catch (error) {
      endLoad?.();
      throw error;
    }
    chain.isJournaled = true;
    let isSent = false;
    let requestId: string | null = null;
    let received: Responded | null = null;
    let sentAt = startedAt;
    let wait: ContentWait | null = null;
    try {
      const provider = findProvider(connectionKey(candidate));
      if (!provider) throw new VendorError('connect', 'the provider is no longer configured');
      const mayOmitTools = !hasLaterNative(request.candidates, candidate);
      const translating = translateIfLarge(call, candidate, provider);
      const translated = translating && (await untilCancelled(translating, cancellation.signal));
      const {
        codec,
        model,
        body,
        changes: bodyChanges,
        toCallerResponse,
      } = adapterFor(call, candidate, provider, responsesForm, mayOmitTools, translated);
      const { headers, droppedFlags } = forwardedHeadersFor(codec.route, call, provider.requests);
      const changes = droppedFlags === null ? bodyChanges : withDroppedFlags(bodyChanges, droppedFlags);
      isSent = true;
      sentAt = clock.now();
      const waiting = contentWaits.begin({ projectId: call.caller.projectId, candidate, isStream: call.stream });
      wait = waiting;
      const vendorResponse = await sendToVendor(httpClient, {
        provider,
        codec,
        model,
        body,
        stream: call.stream,
        mayFailOver: !isLast,
        firstContentTimeoutMs: call.firstContentTimeoutMs ?? candidate.firstContentTimeoutMs ?? provider.firstContentTimeoutMs ?? null,
        forwardedHeaders: headersFor(candidate, headers),
        now,
        signal: cancellation.signal,
        onRequestId(id) {
          requestId = id;
        },
      });
      const isWithoutContent = vendorResponse.kind === 'stream' && vendorResponse.isWithoutContent === true;
      const firstByteMs = clock.now() - startedAt;
      const contentMs = isWithoutContent ? null : firstByteMs;
      const { status } = vendorResponse;
      const attempt: WinningAttempt = { n, candidate, waitMs, startedAt, status, requestId, firstByteMs, contentMs };
      received = { response: vendorResponse, attempt, changes, failed: chain.failed, endLoad };
      if (isWithoutContent) {
        const watched = watchContent(vendorResponse, (end) => {
          if (end === 'content') attempt.contentMs = clock.now() - startedAt;
          endWait(call, candidate, waiting, end);
        });
        return { ...received, response: toCallerResponse(watched) };
      }
      const response = toCallerResponse(vendorResponse);
      endWait(call, candidate, waiting, 'content');
      return response === vendorResponse ? received : { ...received, response };
    } catch (error) {
      const vendorError = error instanceof VendorError ? error : null;
      endLoad?.();
      if (wait) endWait(call, candidate, wait, vendorError ?? (received ? 'content' : 'undecided'));
      if (!vendorError && received) {
        chain.unsent = received;
        throw error;
      }
      const outcome = vendorError ? attemptOutcome(vendorError, cancellation) : 'failed';
      const durationMs = clock.now() - startedAt;
      // After a timeout, the vendor may still finish the response and bill it, even if nobody waits for it. If a
      // response breaks off without an error message from the vendor, the vendor has already generated a part of it.
      const hasBrokenOff = vendorError?.kind === 'broken' && vendorError.vendorMessage === null;
      const mayBeBilled = isCutOff(outcome) || vendorError?.kind === 'timeout' || hasBrokenOff || vendorError?.mayBeBilled === true;
      const isBilled = vendorError ? mayBeBilled && !vendorError.isUnsent : isSent;
      const failed: Attempt = {
        ...record,
        // If the translation failed, nothing was sent, so there's no vendor status.
        status: vendorError && !vendorError.isUntranslatable ? vendorError.status : null,
        outcome,
        ...(requestId !== null && { requestId }),
        waitMs,
        firstByteMs: null,
        durationMs,
        ...chargeFailed(call, candidate, { received, isBilled, durationMs: clock.now() - sentAt }),
      };
      chain.failed.push(recordFailure(logger, call, failed, error, requestReader(call)));
      throw error;
    }
  }

  /**
   * Creates a chain. Its attempts throw `budget_unavailable` if we can't write to the journal, because we don't send
   * calls that we can't record.
   */
  return function toChain(request: ChainRequest): AttemptChain {
    const { call, candidates, cancellation, reservation } = request;
    const chain: AttemptChain = {
      request,
      candidates,
      hasStateAtMember: refersToState(call),
      attempt: (candidate, waitMs, isLast) =>
        call.route === 'responses'
          ? responsesRoutes.attempt(candidate, waitMs, (responsesForm, wait) =>
              send(chain, { candidate, waitMs: wait, isLast, responsesForm }),
            )
          : send(chain, { candidate, waitMs, isLast, responsesForm: 'native' }),
      async reserveNext() {
        const billedNanos = chain.failed.reduce((sum, { costNanos }) => sum + (costNanos ?? 0), 0);
        if (billedNanos === 0) return true;
        return reservation.extend(() => ({ costNanos: usageBounds(call, candidates).costNanos + billedNanos, tokens: 0 }));
      },
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

/**
 * Returns true if one of the later candidates serves `/v1/responses` itself, because its vendor can also run OpenAI's
 * own tools.
 */
function hasLaterNative(candidates: readonly Candidate[], candidate: Candidate): boolean {
  return candidates.indexOf(candidate) < candidates.findLastIndex(({ responses }) => responses === 'native');
}

/**
 * Computes what we charge for a failed attempt. If the vendor responded but we couldn't translate the response, we
 * charge the usage that the vendor reported. If there was no response, we charge an estimate, but only if the vendor
 * may bill the attempt.
 */
function chargeFailed(
  call: Call,
  candidate: Candidate,
  { received, isBilled, durationMs }: { readonly received: Responded | null; readonly isBilled: boolean; readonly durationMs: number },
): Pick<Attempt, 'tokens' | 'costNanos' | 'estimated'> {
  if (received?.response.kind === 'plain') {
    const { tokens, costNanos, isEstimated } = computeCharge(call, candidate, received.response.summary, {
      outcome: 'failed',
      hiddenMs: 0,
    });
    return { tokens, costNanos, ...(isEstimated && { estimated: true }) };
  }
  if (!isBilled) return { tokens: noTokens, costNanos: 0 };
  const { tokens, costNanos } = isBackground(call) ? reservedUsage(call, candidate) : estimateRequest(call, candidate, durationMs);
  return { tokens, costNanos, estimated: true };
}

/** Waits for the thread until the caller disconnects or the deadline passes. We haven't sent anything by then. */
async function untilCancelled<Result>(work: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  if (!signal) return work;
  try {
    return await raceAbort(work, signal);
  } catch (cause) {
    if (!signal.aborted) throw cause;
    throw new VendorError('aborted', 'the call was stopped before it was sent', { isUnsent: true, cause });
  }
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
 * Checks whether the call asks for a background response (`background: true` on responses). The vendor keeps
 * generating after the gateway has seen the last byte, and bills all of it.
 */
function isBackground({ route, spans }: Call): boolean {
  return route === 'responses' && spans.members.get('background')?.kind === 'true';
}
