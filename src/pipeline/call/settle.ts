/** Builds the journal record of a finished call with its outcome, tokens and cost. */
import type { Reservation } from '../../ceilings/reservation.ts';
import {
  type AssistantTurn,
  type Attempt,
  type Call,
  type CallContent,
  type CallMetadata,
  type CallResult,
  isDialect,
  isPromptRoute,
  type MediaCall,
  type Outcome,
  type SettledCall,
} from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import type { GatewayError } from '../../core/errors.ts';
import { noTokens } from '../../core/pricing.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { estimateTokens, sumTokens } from '../../dialects/contract/token-usage.ts';
import { hasEncodedData } from '../../dialects/routes/input-size.ts';
import type { Logger } from '../../observability/logger.ts';
import { traceCall } from '../../observability/trace-call.ts';
import { activeTrace } from '../../observability/tracing.ts';
import type { Plan } from '../../routing/plan.ts';
import type { CacheHit } from '../cache/response-cache.ts';
import { computeCharge } from './charge.ts';
import { estimateInput } from './estimate.ts';

/** The maximum length of a model name in the record, in characters. Callers may send names of several megabytes. */
const maxNameLength = 256;

/** The attempt that got a response. It only ends when the response ends. */
export interface WinningAttempt {
  readonly n: number;
  readonly candidate: Candidate;
  readonly waitMs: number;
  readonly startedAt: number;
  readonly status: number;
  /** The vendor's own id for the request, or null if it didn't send one. */
  readonly requestId: string | null;
  readonly firstByteMs: number;
  /** The time until the first content, or null if none has arrived yet. */
  contentMs: number | null;
}

export interface CallEnd {
  /** The call as the caller sent it, without recalled memories. */
  readonly call: Call;
  /** The call as it was sent to the vendor. We use its body if we have to estimate the usage. */
  readonly sent: Call;
  /** The ids of the memories that recall put into the prompt. */
  readonly recalled: readonly string[];
  readonly metadata: CallMetadata;
  readonly failed: readonly Attempt[];
  readonly endedAt: number;
}

/** Returns the metadata of a media call for the journal. `details` contains the fields that only some routes have. */
export function toCallMetadata<Details extends object>(call: MediaCall, reservation: Reservation, details: Details) {
  const { id, startedAt, caller, source, hasExplicitSource: sourceGiven, route, requestedModel: modelAsked, correlation } = call;
  const { projectId, keyId, keyPrefix } = caller;
  const common = { id, startedAt, projectId, keyId, keyPrefix, source, sourceGiven, route, modelAsked, correlation };
  return withCircumstances({ ...common, ...details }, reservation);
}

/** Returns the metadata of a text call before its first attempt. */
export function toTextCallMetadata(call: Call, plan: Plan, reservation?: Reservation): CallMetadata {
  const {
    id,
    startedAt,
    caller,
    source,
    hasExplicitSource,
    route,
    requestedModel,
    correlation,
    stream,
    memory,
    body,
    isExemptFromCallCeiling,
  } = call;
  const { projectId, keyId, keyPrefix } = caller;
  const metadata: CallMetadata = {
    id,
    startedAt,
    projectId,
    keyId,
    keyPrefix,
    source,
    sourceGiven: hasExplicitSource,
    route,
    modelAsked: requestedModel.slice(0, maxNameLength),
    correlation,
    stream,
    memory,
    plan: plan.entries,
    bodyBytes: hasEncodedData(body) ? 4 * estimateInput(call) : body.length,
  };
  return withCircumstances(isExemptFromCallCeiling ? { ...metadata, takesNoSlot: true } : metadata, reservation);
}

function withCircumstances<Metadata extends object>(metadata: Metadata, reservation: Reservation | undefined) {
  const trace = activeTrace();
  const isUnmetered = reservation?.isUnmetered === true;
  if (!isUnmetered && trace === undefined) return metadata;
  return { ...metadata, ...(isUnmetered && { unmetered: true as const }), ...(trace !== undefined && { trace }) };
}

/**
 * Settles a call that got a complete or partial response. If the response failed, `describe` adds the reason to the
 * attempt.
 */
export function settleResponse(
  callEnd: CallEnd,
  attempt: WinningAttempt,
  summary: ResponseSummary,
  outcome: Outcome,
  describe?: (attempt: Attempt) => Attempt,
): SettledCall {
  const { call, sent, metadata, failed, endedAt } = callEnd;
  const { candidate } = attempt;
  const { tokens, costNanos, units, isEstimated } = computeCharge(sent, candidate, summary, {
    outcome,
    hiddenMs: attempt.contentMs ?? endedAt - attempt.startedAt,
  });
  const charged = chargedAttempts(failed);
  const responded: Attempt = {
    n: attempt.n,
    provider: candidate.provider,
    ...(candidate.member && { member: candidate.member.name }),
    model: candidate.model,
    status: attempt.status,
    outcome,
    ...(attempt.requestId !== null && { requestId: attempt.requestId }),
    waitMs: attempt.waitMs,
    startedAt: attempt.startedAt,
    firstByteMs: attempt.firstByteMs,
    durationMs: endedAt - attempt.startedAt,
    tokens,
    costNanos,
  };
  const last = describe ? describe(responded) : responded;
  const result: CallResult = {
    outcome,
    status: attempt.status,
    code: outcome === 'interrupted' ? 'upstream_failed' : null,
    model: candidate.id,
    cache: cacheStatusFor(call),
    tokens,
    costNanos: sumCosts(costNanos, charged),
    estimated: isEstimated || charged.some(({ estimated }) => estimated),
    durationMs: endedAt - call.startedAt,
    firstByteMs: attempt.startedAt + attempt.firstByteMs - call.startedAt,
    attempts: failed.length === 0 ? [last] : [...failed, last],
  };
  return { metadata, result: units === null ? result : { ...result, units }, content: toCallContent(callEnd, summary.turn) };
}

/**
 * Settles a call whose response we withhold, because a content rule blocked it (`refused`) or because of an error on
 * our side (`failed`). We charge the call, since the vendor bills it, but the record doesn't contain any text of the
 * response.
 */
export function settleUnsent(
  callEnd: CallEnd,
  attempt: WinningAttempt,
  summary: ResponseSummary,
  { error, outcome }: { readonly error: GatewayError; readonly outcome: 'refused' | 'failed' },
): SettledCall {
  const { result, ...settled } = settleResponse(callEnd, attempt, summary, 'ok');
  return {
    ...settled,
    result: { ...result, outcome, status: error.status, code: error.code },
    content: toCallContent(callEnd, null),
  };
}

/**
 * Settles a call that was served from the response cache, without attempts, tokens or cost. `error` is set if a content
 * rule blocked the response.
 */
export function settleCacheHit(
  callEnd: CallEnd,
  { model, summary }: Pick<CacheHit, 'model' | 'summary'>,
  { outcome, error }: { outcome: Outcome; error: GatewayError | null },
): SettledCall {
  const { call, metadata, endedAt } = callEnd;
  return {
    metadata,
    result: {
      outcome,
      status: error?.status ?? 200,
      code: error?.code ?? null,
      model,
      cache: 'hit',
      tokens: noTokens,
      costNanos: 0,
      estimated: false,
      durationMs: endedAt - call.startedAt,
      firstByteMs: null,
      attempts: [],
    },
    content: toCallContent(callEnd, error ? null : summary.turn),
  };
}

/**
 * Settles a call that got no response. The call may still cost something. For attempts that were cut off or took too
 * long, we charge an estimate, unless the request was never sent. For responses that we couldn't translate, we charge
 * the reported usage. The record contains the cost of all attempts, but only the tokens of the last one that we charge
 * for.
 */
export function settleFailed(callEnd: CallEnd, error: GatewayError, outcome: Outcome): SettledCall {
  const { call, metadata, failed, endedAt } = callEnd;
  const charged = chargedAttempts(failed);
  const last = charged.at(-1);
  return {
    metadata,
    result: {
      outcome,
      // Nobody receives this status, because the caller has closed the connection. It's only for the record.
      status: outcome === 'client_left' ? 499 : error.status,
      code: error.code,
      model: last ? `${last.provider}/${last.model}` : null,
      cache: cacheStatusFor(call),
      tokens: last?.tokens ?? noTokens,
      costNanos: last ? sumCosts(last.costNanos, charged.slice(0, -1)) : 0,
      estimated: charged.some(({ estimated }) => estimated),
      durationMs: endedAt - call.startedAt,
      firstByteMs: null,
      attempts: failed,
    },
    content: toCallContent(callEnd, null),
  };
}

/** Returns the failed attempts that we charge for, because the vendor bills them. */
function chargedAttempts(failed: readonly Attempt[]): readonly Attempt[] {
  return failed.length === 0 ? failed : failed.filter(({ tokens }) => sumTokens(tokens) > 0);
}

/** Returns null if the price of the last attempt is unknown. */
function sumCosts(last: number | null, earlier: readonly Attempt[]): number | null {
  return last === null ? null : earlier.reduce((sum, { costNanos }) => sum + (costNanos ?? 0), last);
}

/** Returns the cache status of a call that wasn't served from the cache. Null on routes without a response cache. */
export function cacheStatusFor({ route }: Call): 'miss' | null {
  return isDialect(route) ? 'miss' : null;
}

/** Returns the text to store. We store the prompts of chat, messages and responses, except those of internal calls. */
function toCallContent({ call: { route, body, isInternal }, sent, recalled }: CallEnd, turn: AssistantTurn | null): CallContent | null {
  if (isInternal || !isPromptRoute(route)) return null;
  const content = { request: body, response: turn };
  // The difference in size is what recall added to the prompt. For a cache hit, `sent` is the same as `call`, so the
  // difference is 0. That's correct, because no vendor got the memories.
  return recalled.length === 0 ? content : { ...content, recalled, recalledTokens: estimateTokens(sent.body.length - body.length) };
}

/**
 * Logs a call in one line, and records its spans. Apart from the model's name, the line doesn't contain any text from
 * the caller or the vendor.
 */
export function logCall(logger: Logger, { projectSlug }: Pick<Call, 'projectSlug'>, settled: SettledCall): void {
  const { metadata, result } = settled;
  traceCall(settled);
  logger.info(
    {
      call: metadata.id,
      key: metadata.keyPrefix,
      project: projectSlug,
      route: metadata.route,
      asked: metadata.modelAsked,
      model: result.model,
      outcome: result.outcome,
      status: result.status,
      code: result.code,
      attempts: result.attempts.length,
      durationMs: result.durationMs,
      costNanos: result.costNanos,
    },
    'call',
  );
}
