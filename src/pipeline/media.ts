/**
 * The story of a media call, the shorter sister of `answer.ts`: one provider is asked, once. The call stands in the journal before the
 * vendor is asked, and is settled before the last byte of its answer leaves, however it ends.
 */
import type { Admission, Holds } from '../ceilings/admission.ts';
import type { Limits } from '../ceilings/counters.ts';
import { hasCostCeiling } from '../ceilings/counters.ts';
import type { CallFacts, CallResult, MediaCall, MediaCandidate, Outcome, SettledCall, Tokens, Units } from '../core/call.ts';
import { noTokens } from '../core/call.ts';
import { GatewayError, gatewayError, VendorError } from '../core/errors.ts';
import { costOf, unitCostOf } from '../core/money.ts';
import type { Clock } from '../core/time.ts';
import type { Breakers } from '../failover/breaker.ts';
import { isProviderFault, kindOf } from '../failover/verdict.ts';
import type { Journal } from '../journal/journal.ts';
import type { AttemptStart } from '../journal/record.ts';
import type { Logger } from '../observability/logger.ts';
import type { CalledProject } from './called-project.ts';
import { createRuleChecks } from './check-rules.ts';
import type { CallControl } from './control.ts';
import { logCall } from './settle.ts';

export interface MediaDeps {
  /** Ceilings of a key; a promise only when they must be read. Throws `limits_unavailable`. */
  readonly ceilingsOf: (keyId: string) => Limits['key'] | Promise<Limits['key']>;
  readonly admission: Admission;
  readonly breakers: Breakers;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface MediaRequest {
  readonly call: MediaCall;
  readonly project: CalledProject;
  /** What is to be drawn or spoken: content rules look at it. */
  readonly texts: readonly string[];
  readonly candidate: MediaCandidate;
  /** What is asked for, which is charged where the vendor's own count never comes. */
  readonly units: Units;
  /** They are no count but what is likely: the charge is marked as estimated. */
  readonly areUnitsLikely?: boolean;
  /** Tokens that are likely to be charged, where the model is charged by tokens and the vendor does not count them. */
  readonly likelyTokens: Tokens;
  /** The most that it may come to: what is held of ceilings while the call runs. */
  readonly mostOutputTokens: number;
}

/** What a vendor was asked and gave. */
export interface MediaAnswer<Value> {
  readonly value: Value;
  readonly status: number;
  readonly units: Units;
  /** The vendor's own count; null: it gave none. */
  readonly tokens: Tokens | null;
}

/** Audio on its way. `pieces` must be read to the end or returned: only then is the call settled. */
export interface MediaStream {
  readonly model: string;
  readonly contentType: string;
  readonly pieces: AsyncGenerator<Buffer, void>;
}

/** A vendor's answer that has begun. `pieces` throws VendorError; stopping early (`return`) ends the vendor's request. */
export interface VendorStream {
  readonly status: number;
  readonly contentType: string;
  readonly pieces: AsyncGenerator<Buffer, void>;
}

export interface MediaCalls {
  /** Whether a cost ceiling applies, so that a model without a price must not be asked. Throws `limits_unavailable`. */
  requiresPrice(call: MediaCall, project: CalledProject): Promise<boolean>;
  /** Asks for what comes whole. Throws GatewayError; the call is recorded then, if the vendor was asked. */
  answer<Value>(request: MediaRequest, ask: () => Promise<MediaAnswer<Value>>): Promise<Value>;
  /** Asks for what comes as a stream; `control` ends it when the caller leaves. Throws likewise, until the stream has begun. */
  stream(request: MediaRequest, control: CallControl, ask: () => Promise<VendorStream>): Promise<MediaStream>;
}

export function createMediaCalls({ ceilingsOf, admission, breakers, journal, clock, logger }: MediaDeps): MediaCalls {
  const { checkTexts } = createRuleChecks({ logger });

  return {
    requiresPrice: async (call, project) => hasCostCeiling(await limitsOf(call, project)),
    async answer(request, ask) {
      const running = await open(request);
      const answer = await ask().catch((error: unknown) => fail(running, error, null));
      judge(request, null);
      const { status, units, tokens, value } = answer;
      const endedAt = clock.now();
      const begun = { ...running, firstByteMs: endedAt - running.start.startedAt };
      await settle(begun, { outcome: 'ok', status, units, tokens, endedAt });
      return value;
    },
    async stream(request, control, ask) {
      const running = await open(request);
      const { status, contentType, pieces } = await ask().catch((error: unknown) => fail(running, error, control));
      judge(request, null);
      const begun = { ...running, status, firstByteMs: clock.now() - running.start.startedAt };
      return { model: request.candidate.id, contentType, pieces: deliver(begun, pieces) };
    },
  };

  async function limitsOf({ caller, source }: MediaCall, project: CalledProject): Promise<Limits> {
    return { projectId: caller.projectId, keyId: caller.keyId, source, key: await ceilingsOf(caller.keyId), project };
  }

  /** Throws what refuses the call; then nothing of it is left. */
  async function open(request: MediaRequest): Promise<Running> {
    const { call, project, candidate, texts } = request;
    if (!project.mayCall) throw gatewayError('subscription_required');
    if (project.rules.input) await checkTexts(call, project.rules.input, texts);
    const limits = await limitsOf(call, project);
    const holds = await admission.admit({ limits, startedAt: call.startedAt, bounds: () => boundsOf(request) });
    const start = { n: 1, provider: candidate.provider, model: candidate.model, startedAt: clock.now() };
    const facts = factsOf(request, holds);
    try {
      await journal.open(facts, start);
    } catch (error) {
      holds.release();
      throw error;
    }
    return { request, facts, holds, start, status: null, firstByteMs: null };
  }

  /**
   * Settles what never became an answer, and throws what the caller is told. A caller who left is charged: his vendor was asked. So is a call
   * that the service's end cuts: its vendor may go on.
   */
  async function fail(running: Running, cause: unknown, control: CallControl | null): Promise<never> {
    const { request } = running;
    const error = asGatewayError(cause);
    const hasLeft = control?.stoppedBy() === 'client';
    if (cause instanceof VendorError) judge(request, cause);
    const status = cause instanceof VendorError ? cause.status : null;
    const isCut = cause instanceof VendorError && cause.fault === 'stopped';
    // The vendor has taken the order, and it could not be written down (video.ts).
    const isUnrecorded = error.code === 'budget_unavailable';
    const end =
      hasLeft || isCut || isUnrecorded
        ? ({ outcome: hasLeft ? 'client_left' : 'unknown', units: request.units, tokens: null } as const)
        : ({ outcome: isRefusal(cause) ? 'refused' : 'failed', units: {}, tokens: noTokens } as const);
    await settle({ ...running, status }, { ...end, error, status: hasLeft ? 499 : error.status, endedAt: clock.now() });
    throw error;
  }

  /** The pieces of a stream, settled however it ends: whole, broken by the vendor, or left by the caller. */
  async function* deliver(running: Running, pieces: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
    const { request, status } = running;
    let isSettled = false;
    const settleAs = async (outcome: Outcome, error?: GatewayError): Promise<void> => {
      if (isSettled) return;
      isSettled = true;
      const end = { outcome, status: status ?? 200, units: request.units, tokens: null, endedAt: clock.now() };
      await settle(running, error ? { ...end, error } : end);
    };
    try {
      yield* pieces;
      await settleAs('ok');
    } catch (cause) {
      if (!(cause instanceof VendorError)) throw cause;
      // The caller left: `finally` settles, and nobody is there to be told.
      if (cause.fault === 'aborted') return;
      judge(request, cause);
      const error = asGatewayError(cause);
      await settleAs('interrupted', error);
      throw error;
    } finally {
      await pieces.return();
      await settleAs('client_left');
    }
  }

  /** Null: it answered. The caller's leaving never counts (lessons 19). */
  function judge({ call, candidate }: MediaRequest, error: VendorError | null): void {
    const { projectId } = call.caller;
    if (error === null) breakers.succeeded(projectId, candidate.provider);
    else if (isProviderFault(error)) breakers.failed(projectId, candidate.provider);
    else if (kindOf(error) === 'rate_limited' && typeof error.retryAfterMs === 'number')
      breakers.cool(projectId, candidate.provider, clock.now() + error.retryAfterMs);
  }

  async function settle(running: Running, end: MediaEnd): Promise<void> {
    const { facts, result, content } = settledOf(running, end);
    const settled = { facts, result: running.holds.settle(result), content };
    await journal.settle(settled);
    logCall(logger, settled);
  }
}

/** A call whose vendor is being asked. */
interface Running {
  readonly request: MediaRequest;
  readonly facts: CallFacts;
  readonly holds: Holds;
  readonly start: AttemptStart;
  /** The vendor's. */
  readonly status: number | null;
  readonly firstByteMs: number | null;
}

interface MediaEnd {
  readonly outcome: Outcome;
  /** As the caller sees it. */
  readonly status: number;
  readonly error?: GatewayError;
  readonly units: Units;
  readonly tokens: Tokens | null;
  readonly endedAt: number;
}

function settledOf({ request, facts, start, status, firstByteMs }: Running, end: MediaEnd): SettledCall {
  const { call, candidate } = request;
  const { outcome, error, endedAt } = end;
  const { tokens, costNanos, isEstimated } = chargeOf(request, end);
  const vendorStatus = outcome === 'ok' ? end.status : status;
  const result: CallResult = {
    outcome,
    status: outcome === 'ok' ? 200 : end.status,
    code: error?.code ?? null,
    model: isFailure(outcome) ? null : candidate.id,
    cache: null,
    tokens,
    costNanos,
    estimated: isEstimated,
    durationMs: endedAt - call.startedAt,
    firstByteMs: firstByteMs === null ? null : start.startedAt + firstByteMs - call.startedAt,
    attempts: [
      { ...start, status: vendorStatus, outcome, waitMs: 0, firstByteMs, durationMs: endedAt - start.startedAt, tokens, costNanos },
    ],
  };
  return { facts, result, content: null };
}

/** No answer came: there is nothing to charge. */
function isFailure(outcome: Outcome): boolean {
  return outcome === 'failed' || outcome === 'refused';
}

function isRefusal(cause: unknown): boolean {
  return cause instanceof VendorError && kindOf(cause) === 'refused';
}

/** By units where one of them has a price, else by tokens: the vendor's count, or what is likely. */
function chargeOf(
  { candidate, likelyTokens, areUnitsLikely = false }: MediaRequest,
  { outcome, units, tokens }: MediaEnd,
): { tokens: Tokens; costNanos: number | null; isEstimated: boolean } {
  if (isFailure(outcome)) return { tokens: noTokens, costNanos: 0, isEstimated: false };
  const unitCost = unitCostOf(units, candidate.unitPrices);
  const isCut = outcome !== 'ok';
  if (unitCost !== null) return { tokens: tokens ?? noTokens, costNanos: unitCost, isEstimated: isCut || areUnitsLikely };
  if (candidate.price === null) return { tokens: tokens ?? noTokens, costNanos: null, isEstimated: isCut };
  const charged = tokens ?? likelyTokens;
  return { tokens: charged, costNanos: costOf(charged, candidate.price), isEstimated: isCut || tokens === null };
}

/** What is held of ceilings (decisions 6). A token has at least one byte; what has no price by tokens counts none. */
function boundsOf({ call, candidate, units, mostOutputTokens }: MediaRequest): { costNanos: number; tokens: number } {
  const { price, unitPrices } = candidate;
  const most = { ...noTokens, input: call.bodyBytes, output: mostOutputTokens };
  const costNanos = unitCostOf(units, unitPrices) ?? (price === null ? 0 : costOf(most, price));
  return { costNanos: countable(costNanos), tokens: price === null ? 0 : countable(most.input + most.output) };
}

/** Callers may ask for any number of images; the database counts no further. */
function countable(amount: number): number {
  return Math.min(amount, Number.MAX_SAFE_INTEGER);
}

/** What a vendor's failure is to the caller of a media route (specification 7.4, shapes 21). */
function asGatewayError(cause: unknown): GatewayError {
  if (cause instanceof GatewayError) return cause;
  if (!(cause instanceof VendorError)) return gatewayError('internal_error', { cause });
  const { message } = cause;
  switch (cause.fault) {
    case 'status':
      return gatewayError('upstream_error', { message, cause });
    case 'unreadable':
      return gatewayError('bad_upstream_response', { message, cause });
    case 'connect':
    case 'timeout':
    case 'stopped':
      return gatewayError('upstream_failed', { message, status: 503, cause });
    case 'broken':
      return gatewayError('upstream_failed', { message, cause });
    case 'aborted':
      return gatewayError('upstream_failed', { message: 'the caller left', cause });
  }
}

function factsOf({ call, candidate, units }: MediaRequest, { isUnmetered }: Holds): CallFacts {
  const { id, startedAt, caller, source, sourceGiven, route, modelAsked, correlation, bodyBytes } = call;
  return {
    id,
    startedAt,
    projectId: caller.projectId,
    keyId: caller.keyId,
    keyPrefix: caller.keyPrefix,
    source,
    sourceGiven,
    route,
    modelAsked,
    stream: false,
    // Memory records text alone (specification 4.8 rule 3).
    memory: { mode: 'off', explicitWrite: false, subject: null },
    correlation,
    plan: [{ model: candidate.id, skipped: null }],
    bodyBytes,
    units,
    ...(isUnmetered && { unmetered: true as const }),
  };
}
