/** Turns what is known of a finished call into the record that the journal keeps: outcome, tokens, cost. Pure but for the clock. */
import type { Reservation } from '../../ceilings/reservation.ts';
import type { AssistantTurn, Attempt, Call, CallContent, CallMetadata, Outcome, SettledCall } from '../../core/call.ts';
import { tokenCost } from '../../core/cost.ts';
import type { GatewayError } from '../../core/errors.ts';
import type { Tokens } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import type { Logger } from '../../observability/logger.ts';
import type { Plan } from '../../routing/plan.ts';
import type { CacheHit } from '../cache/response-cache.ts';
import type { WinningAttempt } from './attempt.ts';
import { estimateSearches, isChargedBySearch } from './estimate.ts';

/** As long as any name that is recorded (decisions 5): the caller may have sent megabytes. */
const maxNameLength = 256;

export interface CallEnd {
  /** As the caller sent it. */
  readonly call: Call;
  /** Ids of the memory items that were put into its prompt. */
  readonly recalled: readonly string[];
  readonly facts: CallMetadata;
  readonly failed: readonly Attempt[];
  readonly endedAt: number;
}

/** What is known of a call before its first attempt. */
export function toCallMetadata(call: Call, plan: Plan, reservation?: Reservation): CallMetadata {
  return {
    id: call.id,
    startedAt: call.startedAt,
    projectId: call.caller.projectId,
    keyId: call.caller.keyId,
    keyPrefix: call.caller.keyPrefix,
    source: call.source,
    sourceGiven: call.sourceGiven,
    route: call.route,
    modelAsked: call.modelAsked.slice(0, maxNameLength),
    stream: call.stream,
    memory: call.memory,
    correlation: call.correlation,
    plan: plan.entries,
    bodyBytes: call.body.length,
    ...(reservation?.isUnmetered && { unmetered: true as const }),
  };
}

/** A call that a vendor answered, whole or in part. */
export function settleResponse(callEnd: CallEnd, attempt: WinningAttempt, summary: ResponseSummary, outcome: Outcome): SettledCall {
  const { call, facts, failed, endedAt } = callEnd;
  const { candidate } = attempt;
  const { price } = candidate;
  const { tokens, isEstimated } = resolveTokens(call, summary, outcome);
  const lacksSearches = summary.searches === undefined && price !== null && isChargedBySearch(call, price);
  const searches = lacksSearches ? estimateSearches(call) : summary.searches;
  const costNanos = price === null ? null : tokenCost(tokens, price, searches);
  const last: Attempt = {
    n: attempt.n,
    provider: candidate.provider,
    model: candidate.model,
    status: attempt.status,
    outcome,
    waitMs: attempt.waitMs,
    startedAt: attempt.startedAt,
    firstByteMs: attempt.firstByteMs,
    durationMs: endedAt - attempt.startedAt,
    tokens,
    costNanos,
  };
  return {
    facts,
    result: {
      outcome,
      status: attempt.status,
      code: outcome === 'interrupted' ? 'upstream_failed' : null,
      model: candidate.id,
      cache: cacheStatusFor(call),
      tokens,
      costNanos,
      ...(searches !== undefined && { units: { searches } }),
      estimated: isEstimated || lacksSearches,
      durationMs: endedAt - call.startedAt,
      firstByteMs: attempt.startedAt + attempt.firstByteMs - call.startedAt,
      attempts: [...failed, last],
    },
    content: toCallContent(callEnd, summary.turn),
  };
}

/** A call whose answer a content rule kept back: charged, since the vendor did its work, and neither the answer's text kept nor the call remembered. */
export function settleBlocked(callEnd: CallEnd, attempt: WinningAttempt, summary: ResponseSummary, error: GatewayError): SettledCall {
  const { result, ...settled } = settleResponse(callEnd, attempt, summary, 'ok');
  return {
    ...settled,
    result: { ...result, outcome: 'refused', status: error.status, code: error.code },
    content: toCallContent(callEnd, null),
  };
}

/** A call that the response cache answered: no attempt, no tokens, no cost. `error`: a content rule kept the answer back. */
export function settleCacheHit(
  callEnd: CallEnd,
  { model, reading }: Pick<CacheHit, 'model' | 'reading'>,
  { outcome, error }: { outcome: Outcome; error: GatewayError | null },
): SettledCall {
  const { call, facts, endedAt } = callEnd;
  return {
    facts,
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
    content: toCallContent(callEnd, error ? null : reading.turn),
  };
}

/** A call that no vendor answered, as far as anybody knows: of outcome `unknown` the last attempt may have been. */
export function settleFailed(callEnd: CallEnd, error: GatewayError, outcome: Outcome): SettledCall {
  const { call, facts, failed, endedAt } = callEnd;
  const cut = outcome === 'unknown' ? failed.at(-1) : undefined;
  return {
    facts,
    result: {
      outcome,
      // 499: the caller closed the connection before an answer could be sent; nobody has seen this status.
      status: outcome === 'client_left' ? 499 : error.status,
      code: error.code,
      model: cut ? `${cut.provider}/${cut.model}` : null,
      cache: cacheStatusFor(call),
      tokens: cut?.tokens ?? noTokens,
      costNanos: cut ? cut.costNanos : 0,
      estimated: cut !== undefined,
      durationMs: endedAt - call.startedAt,
      firstByteMs: null,
      attempts: failed,
    },
    content: toCallContent(callEnd, null),
  };
}

/** Only chat and messages have a response cache (specification 4.5). */
export function cacheStatusFor({ route }: Call): 'miss' | null {
  return route === 'chat' || route === 'messages' ? 'miss' : null;
}

/** Prompts are stored for chat, messages and responses (decisions 9). */
function toCallContent({ call: { route, body, isInternal: isOwn }, recalled }: CallEnd, turn: AssistantTurn | null): CallContent | null {
  if (isOwn) return null;
  if (route !== 'chat' && route !== 'messages' && route !== 'responses') return null;
  return { request: body, answer: turn, ...(recalled.length > 0 && { recalled }) };
}

/** The vendor's final counts; where they never came, what was sent and delivered is estimated (lessons 11). */
function resolveTokens(call: Call, { tokens, isFinal, turn }: ResponseSummary, outcome: Outcome): { tokens: Tokens; isEstimated: boolean } {
  if (tokens !== null && isFinal) return { tokens, isEstimated: false };
  const characters = turn.toolCalls.reduce((sum, tool) => sum + tool.name.length + tool.arguments.length, turn.text.length);
  const delivered = estimateTokens(characters);
  const reported = tokens ?? noTokens;
  // Some vendors count all of the input as nothing until their last word.
  const isInputKnown = reported.input + reported.cachedInput + reported.cacheWrite + reported.cacheWrite1h > 0;
  const input = isInputKnown ? reported.input : estimateTokens(call.body.length);
  return {
    tokens: { ...reported, input, output: Math.max(reported.output, delivered) },
    isEstimated: outcome !== 'ok' || delivered > 0 || !isInputKnown,
  };
}

/** The one line of a call in the log; nothing that its caller or its vendor wrote but the name of the model. */
export function logCall(logger: Logger, { facts, result }: SettledCall): void {
  logger.info(
    {
      call: facts.id,
      key: facts.keyPrefix,
      project: facts.projectId,
      route: facts.route,
      asked: facts.modelAsked,
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
