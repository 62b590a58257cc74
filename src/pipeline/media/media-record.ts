/** What a media call comes to on paper: its facts, what is held of ceilings, how it ended, what is charged, what the caller is told. Pure. */
import type { Reservation } from '../../ceilings/reservation.ts';
import type { CallMetadata, CallResult, MediaCall, MediaCandidate, Outcome, SettledCall } from '../../core/call.ts';
import { tokenCost, unitsCost } from '../../core/cost.ts';
import { GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import type { Tokens, Units } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import { classifyFailure } from '../../failover/classify-failure.ts';
import type { AttemptStart } from '../../journal/record.ts';
import type { ProjectContext } from '../call/project-context.ts';

export interface MediaCallRequest {
  readonly call: MediaCall;
  readonly project: ProjectContext;
  /** What is to be drawn or spoken: content rules look at it. */
  readonly texts: readonly string[];
  readonly candidate: MediaCandidate;
  /** What is asked for, which is charged where the vendor's own count never comes. */
  readonly units: Units;
  /** They are no count but what is likely: the charge is marked as estimated. */
  readonly unitsEstimated?: boolean;
  /** Tokens that are likely to be charged, where the model is charged by tokens and the vendor does not count them. */
  readonly estimatedTokens: Tokens;
  /** The most that it may come to: what is held of ceilings while the call runs. */
  readonly maxOutputTokens: number;
}

/** A call whose vendor is being asked. */
export interface RunningMediaCall {
  readonly request: MediaCallRequest;
  readonly metadata: CallMetadata;
  readonly reservation: Reservation;
  readonly start: AttemptStart;
  /** The vendor's. */
  readonly status: number | null;
  readonly firstByteMs: number | null;
}

export interface MediaEnd {
  readonly outcome: Outcome;
  /** As the caller sees it. */
  readonly status: number;
  readonly error?: GatewayError;
  readonly units: Units;
  readonly tokens: Tokens | null;
  readonly endedAt: number;
}

export function settleMediaCall({ request, metadata, start, status, firstByteMs }: RunningMediaCall, end: MediaEnd): SettledCall {
  const { call, candidate } = request;
  const { outcome, error, endedAt } = end;
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
      { ...start, status: vendorStatus, outcome, waitMs: 0, firstByteMs, durationMs: endedAt - start.startedAt, tokens, costNanos },
    ],
  };
  return { facts: metadata, result, content: null };
}

/** No answer came: there is nothing to charge. */
function isFailure(outcome: Outcome): boolean {
  return outcome === 'failed' || outcome === 'refused';
}

export function isRefusal(cause: unknown): boolean {
  return cause instanceof VendorError && classifyFailure(cause) === 'refused';
}

/** By units where one of them has a price, else by tokens: the vendor's count, or what is likely. */
function computeCharge(
  { candidate, estimatedTokens, unitsEstimated = false }: MediaCallRequest,
  { outcome, units, tokens }: MediaEnd,
): { tokens: Tokens; costNanos: number | null; isEstimated: boolean } {
  if (isFailure(outcome)) return { tokens: noTokens, costNanos: 0, isEstimated: false };
  const unitCost = unitsCost(units, candidate.unitPrices);
  const isCut = outcome !== 'ok';
  if (unitCost !== null) return { tokens: tokens ?? noTokens, costNanos: unitCost, isEstimated: isCut || unitsEstimated };
  if (candidate.price === null) return { tokens: tokens ?? noTokens, costNanos: null, isEstimated: isCut };
  const charged = tokens ?? estimatedTokens;
  return { tokens: charged, costNanos: tokenCost(charged, candidate.price), isEstimated: isCut || tokens === null };
}

/**
 * What is held of ceilings (decisions 6). A token has at least one byte. What has no price by tokens uses none, and holds one while it runs, so
 * that a ceiling of tokens that is reached refuses media calls like all others (specification 7.4).
 */
export function mediaUsageBounds({ call, candidate, units, maxOutputTokens }: MediaCallRequest): { costNanos: number; tokens: number } {
  const { price, unitPrices } = candidate;
  const maxTokens = { ...noTokens, input: call.bodyBytes, output: maxOutputTokens };
  const costNanos = unitsCost(units, unitPrices) ?? (price === null ? 0 : tokenCost(maxTokens, price));
  return { costNanos: clampToSafeInteger(costNanos), tokens: price === null ? 1 : clampToSafeInteger(maxTokens.input + maxTokens.output) };
}

/** Callers may ask for any number of images; the database counts no further. */
function clampToSafeInteger(amount: number): number {
  return Math.min(amount, Number.MAX_SAFE_INTEGER);
}

/** What a vendor's failure is to the caller of a media route (specification 7.4, shapes 21). */
export function asGatewayError(cause: unknown): GatewayError {
  if (cause instanceof GatewayError) return cause;
  if (!(cause instanceof VendorError)) return gatewayError('internal_error', { cause });
  const { message } = cause;
  switch (cause.kind) {
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

export function toMediaCallMetadata({ call, candidate, units }: MediaCallRequest, { isUnmetered }: Reservation): CallMetadata {
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
