/** Builds the records of media calls with their metadata, usage bounds, charges, outcomes and errors. */
import type { Reservation, UsageBounds } from '../../ceilings/reservation.ts';
import type { Attempt, CallMetadata, CallResult, MediaCall, Outcome, SettledCall } from '../../core/call.ts';
import { noMemory } from '../../core/call.ts';
import type { MediaCandidate } from '../../core/candidate.ts';
import { clampToSafeInteger, tokenCost, unitsCost } from '../../core/cost.ts';
import { GatewayError, gatewayError, VendorError, vendorMembers } from '../../core/errors.ts';
import type { Price, Tokens, Units } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import type { AttemptStart } from '../../journal/record.ts';
import type { ProjectContext } from '../call/project-context.ts';
import { toCallMetadata } from '../call/settle.ts';

export interface MediaCallRequest {
  readonly call: MediaCall;
  readonly project: ProjectContext;
  /** Prompts and spoken text, so that content rules can check them. */
  readonly texts: readonly string[];
  /** Aborts the check of the content rules. */
  readonly unsentSignal?: AbortSignal | undefined;
  readonly candidate: MediaCandidate;
  /** The requested units. We charge these if the vendor doesn't report any. */
  readonly units: Units;
  /** Whether `units` is an estimate. If it is, we mark the charge as estimated. */
  readonly unitsEstimated?: boolean;
  /** Charged if the price is per token and the vendor reports no tokens. */
  readonly estimatedTokens: Tokens;
  /** Returns what to use instead of `units` and `estimatedTokens` if the call is cut off before its vendor responds. */
  readonly usageWhenCut?: () => Partial<Pick<MediaCallRequest, 'units' | 'estimatedTokens'>>;
  /** The most units that the vendor may charge. Defaults to `units`. */
  readonly maxUnits?: Units;
  /** An upper bound of the output tokens, which we reserve while the call runs. */
  readonly maxOutputTokens: number;
  /** An upper bound of the input tokens. Defaults to one token per byte of the body. */
  readonly maxInputTokens?: number;
  /** What we reserve on ceilings of tokens per minute. Defaults to the sum of both upper bounds. */
  readonly likelyTokens?: number;
}

export interface RunningMediaCall {
  readonly request: MediaCallRequest;
  readonly metadata: CallMetadata;
  readonly reservation: Reservation;
  readonly start: AttemptStart;
  /** The vendor's status. Null before its response. */
  readonly status: number | null;
  readonly firstByteMs: number | null;
  /** Shared by all copies of the call, so that it's settled only once. */
  readonly progress: { isSettled: boolean };
  /** Ends the request at the member of a pool. */
  readonly endLoad: (() => void) | undefined;
}

export interface MediaEnd {
  readonly outcome: Outcome;
  /** The status sent to the caller. */
  readonly status: number;
  readonly error?: GatewayError;
  readonly units: Units;
  /** Whether `units` is an estimate. Defaults to the request's value. */
  readonly unitsEstimated?: boolean;
  readonly tokens: Tokens | null;
  /** True if the call ended before there was a connection to the vendor, so that it's free. */
  readonly isUnsent?: boolean;
  readonly endedAt: number;
  readonly describe?: (attempt: Attempt) => Attempt;
}

export function settleMediaCall({ request, metadata, start, status, firstByteMs }: RunningMediaCall, end: MediaEnd): SettledCall {
  const { call, candidate } = request;
  const { outcome, error, endedAt, describe = (attempt: Attempt) => attempt } = end;
  const { tokens, costNanos, isEstimated } = computeCharge(request, end);
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

/** Reports whether the call ended without a response, so that we charge nothing. */
function isFailure(outcome: Outcome): boolean {
  return outcome === 'failed' || outcome === 'refused';
}

/** Charges by units if one of them has a price. Otherwise charges by tokens, which are reported or estimated. */
function computeCharge(
  { candidate, estimatedTokens, unitsEstimated: requestEstimated = false }: MediaCallRequest,
  { outcome, units, unitsEstimated = requestEstimated, tokens, isUnsent = false }: MediaEnd,
): { tokens: Tokens; costNanos: number | null; isEstimated: boolean } {
  if (isFailure(outcome) || isUnsent) return { tokens: noTokens, costNanos: 0, isEstimated: false };
  const unitCost = unitsCost(units, candidate.unitPrices);
  const isCut = outcome !== 'ok';
  if (unitCost !== null) return { tokens: tokens ?? noTokens, costNanos: unitCost, isEstimated: isCut || unitsEstimated };
  if (candidate.price === null) return { tokens: tokens ?? noTokens, costNanos: null, isEstimated: isCut };
  const charged = tokens ?? estimatedTokens;
  return { tokens: charged, costNanos: tokenCost(charged, candidate.price, units), isEstimated: isCut || tokens === null };
}

/**
 * Returns the upper bounds to reserve. A token has at least one byte, so the size of the body is an upper bound of its
 * tokens. A model without a token price uses no tokens, but we reserve one so that an exceeded token ceiling rejects
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

/** Returns the higher of the two costs, because all of the input may be text or an image. */
function mostTokenCost(tokens: Tokens, price: Price): number {
  return Math.max(tokenCost(tokens, price), tokenCost(tokens, price, { imageTokens: tokens.input }));
}

/** Maps a failure to the error of a media route (docs/api/reference.md#error-codes). */
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
