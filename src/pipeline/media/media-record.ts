import type { Reservation, UsageBounds } from '../../ceilings/reservation.ts';
import {
  type Attempt,
  type CallMetadata,
  type CallResult,
  type MediaCall,
  noMemory,
  type Outcome,
  type SettledCall,
} from '../../core/call.ts';
import type { MediaCandidate } from '../../core/candidate.ts';
import { clampToSafeInteger, tokenCost, unitsCost } from '../../core/cost.ts';
import { GatewayError, gatewayError, VendorError, vendorMembers } from '../../core/errors.ts';
import { noTokens, type Price, type Tokens, type Units } from '../../core/pricing.ts';
import type { AttemptStart } from '../../journal/record.ts';
import type { ProjectContext } from '../call/project-context.ts';
import { toCallMetadata } from '../call/settle.ts';

export interface MediaCallRequest {
  readonly call: MediaCall;
  readonly project: ProjectContext;
  readonly texts: readonly string[];
  /** If the client disconnects, aborting this signal stops the evaluation of content rules. */
  readonly unsentSignal?: AbortSignal | undefined;
  readonly candidate: MediaCandidate;
  /**
   * The units that the request asks for, e.g. images or seconds. If the vendor doesn't report how much it used, we
   * charge these.
   */
  readonly units: Units;
  /** True if `units` is only an estimate, which makes the charge an estimate as well. */
  readonly unitsEstimated?: boolean;
  /** The tokens that we charge if the price is per token and the vendor doesn't report any. */
  readonly estimatedTokens: Tokens;
  /**
   * Estimates the usage of a call that was cut off before the vendor responded. The result replaces `units` and
   * `estimatedTokens`.
   */
  readonly usageWhenCut?: () => Partial<Pick<MediaCallRequest, 'units' | 'estimatedTokens'>>;
  /** The highest number of units that the vendor could bill. Only needed if that's more than `units`. */
  readonly maxUnits?: Units;
  /** An upper bound of the output tokens. We reserve it while the call runs. */
  readonly maxOutputTokens: number;
  /** An upper bound of the input tokens. Defaults to one token per byte of the body. */
  readonly maxInputTokens?: number;
  /** What we reserve on tokens-per-minute ceilings. Defaults to the sum of both upper bounds. */
  readonly likelyTokens?: number;
}

export interface RunningMediaCall {
  readonly request: MediaCallRequest;
  readonly metadata: CallMetadata;
  readonly reservation: Reservation;
  readonly start: AttemptStart;
  /** Null until the vendor has responded. */
  readonly status: number | null;
  readonly firstByteMs: number | null;
  /**
   * All copies of a call share this object, so that the call is only settled once. `requestId` is null until the vendor
   * sends one.
   */
  readonly progress: { isSettled: boolean; requestId: string | null };
  /** Tells the pool that its member has finished this request. */
  readonly endLoad: (() => void) | undefined;
}

export interface MediaEnd {
  readonly outcome: Outcome;
  /** The status that we send to the caller. */
  readonly status: number;
  readonly error?: GatewayError;
  readonly units: Units;
  /** True if `units` is an estimate. Takes precedence over `unitsEstimated` of the request. */
  readonly unitsEstimated?: boolean;
  readonly tokens: Tokens | null;
  /** Replaces `estimatedTokens` of the request if `tokens` is null. */
  readonly estimatedTokens?: Tokens;
  /** True if the call ended before we had a connection to the vendor. Such calls are free. */
  readonly isUnsent?: boolean;
  readonly endedAt: number;
  readonly describe?: (attempt: Attempt) => Attempt;
}

interface MediaCharge {
  readonly tokens: Tokens;
  readonly costNanos: number | null;
  readonly isEstimated: boolean;
}

export function settleMediaCall(running: RunningMediaCall, end: MediaEnd, charge = computeCharge(running.request, end)): SettledCall {
  const { request, metadata, start, status, firstByteMs, progress } = running;
  const { call, candidate } = request;
  const { outcome, error, endedAt, describe = (attempt: Attempt) => attempt } = end;
  const { tokens, costNanos, isEstimated } = charge;
  const { requestId } = progress;
  const vendorStatus = outcome === 'ok' ? end.status : status;
  const result: CallResult = {
    outcome,
    status: outcome === 'ok' ? 200 : end.status,
    code: error?.code ?? null,
    model: isFailure(outcome) ? null : candidate.id,
    cache: null,
    tokens,
    costNanos,
    ...(!isFailure(outcome) && { units: end.units }),
    estimated: isEstimated,
    durationMs: endedAt - call.startedAt,
    firstByteMs: firstByteMs === null ? null : start.startedAt + firstByteMs - call.startedAt,
    attempts: [
      describe({
        ...start,
        status: vendorStatus,
        outcome,
        ...(requestId !== null && { requestId }),
        waitMs: 0,
        firstByteMs,
        durationMs: endedAt - start.startedAt,
        tokens,
        costNanos,
      }),
    ],
  };
  return { metadata, result, content: null };
}

/** Calls with these outcomes are free, because they ended without a response. */
function isFailure(outcome: Outcome): boolean {
  return outcome === 'failed' || outcome === 'refused';
}

/**
 * Prices per unit (images, characters, seconds) take precedence over token prices. If the vendor didn't report tokens,
 * we estimate them.
 */
function computeCharge(
  { candidate, estimatedTokens, unitsEstimated: requestEstimated = false }: MediaCallRequest,
  { outcome, units, unitsEstimated = requestEstimated, tokens, isUnsent = false, ...end }: MediaEnd,
): MediaCharge {
  if (isFailure(outcome) || isUnsent) return { tokens: noTokens, costNanos: 0, isEstimated: false };
  const unitCost = unitsCost(units, candidate.unitPrices);
  const isCut = outcome !== 'ok';
  if (unitCost !== null) return { tokens: tokens ?? noTokens, costNanos: unitCost, isEstimated: isCut || unitsEstimated };
  if (candidate.price === null) return { tokens: tokens ?? noTokens, costNanos: null, isEstimated: isCut };
  const charged = tokens ?? end.estimatedTokens ?? estimatedTokens;
  return { tokens: charged, costNanos: tokenCost(charged, candidate.price, units), isEstimated: isCut || tokens === null };
}

/** Returns the cost that we have reserved, in case we can't compute the actual one. */
export function reservedCharge(request: MediaCallRequest): MediaCharge {
  return { tokens: noTokens, costNanos: mediaUsageBounds(request).costNanos, isEstimated: true };
}

/**
 * Returns the upper bounds that we reserve. A token has at least one byte, so the size of the body is an upper bound of
 * its tokens. If the model has no token price we still reserve one token, so that an exceeded token ceiling rejects
 * media calls too (docs/api/reference.md#rate-limits-and-ceilings).
 */
export function mediaUsageBounds(request: MediaCallRequest): UsageBounds {
  const { call, candidate, units, maxUnits = units, maxInputTokens = call.bodyBytes, maxOutputTokens } = request;
  const { likelyTokens = maxInputTokens + maxOutputTokens } = request;
  const { price, unitPrices } = candidate;
  const maxTokens = { ...noTokens, input: maxInputTokens, output: maxOutputTokens };
  const costNanos = unitsCost(maxUnits, unitPrices) ?? (price === null ? 0 : mostTokenCost(maxTokens, price));
  return { costNanos: clampToSafeInteger(costNanos), tokens: price === null ? 1 : clampToSafeInteger(likelyTokens) };
}

/** We don't know which input tokens are text and which are images, so we assume the higher of the two prices. */
function mostTokenCost(tokens: Tokens, price: Price): number {
  return Math.max(tokenCost(tokens, price), tokenCost(tokens, price, { imageTokens: tokens.input }));
}

export function asGatewayError(cause: unknown): GatewayError {
  if (cause instanceof GatewayError) return cause;
  if (!(cause instanceof VendorError)) return gatewayError('internal_error', { cause });
  const { message } = cause;
  switch (cause.kind) {
    case 'status':
      return gatewayError('upstream_error', { message, cause, members: vendorMembers(cause) });
    case 'unreadable':
      return gatewayError('bad_upstream_response', { message, cause });
    case 'connect':
    case 'timeout':
    case 'stopped':
      return gatewayError('upstream_failed', { message, status: 503, cause });
    case 'broken':
      return gatewayError('upstream_failed', { message, cause });
    case 'aborted':
      return gatewayError('upstream_failed', { message: 'the caller disconnected', cause });
  }
}

export function toMediaCallMetadata({ call, candidate, units }: MediaCallRequest, reservation: Reservation): CallMetadata {
  const plan = [{ model: candidate.id, skipped: null }];
  return toCallMetadata(call, reservation, { stream: false, memory: noMemory, plan, bodyBytes: call.bodyBytes, units });
}
