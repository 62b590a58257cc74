/** Turns what is known of a finished call into the record that the journal keeps: outcome, tokens, cost. Pure but for the clock. */
import type { Holds } from '../../ceilings/reservation.ts';
import type { AssistantTurn, Attempt, Call, CallContent, CallFacts, Outcome, SettledCall } from '../../core/call.ts';
import { costOf } from '../../core/cost.ts';
import type { GatewayError } from '../../core/errors.ts';
import type { Tokens } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import type { AnswerReading } from '../../dialects/contract/route-codec.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import type { Logger } from '../../observability/logger.ts';
import type { Plan } from '../../routing/plan.ts';
import type { Hit } from '../cache/response-cache.ts';
import type { OpenAttempt } from './attempt.ts';
import { estimateSearches, isChargedBySearch } from './estimate.ts';

/** As long as any name that is recorded (decisions 5): the caller may have sent megabytes. */
const longestName = 256;

export interface Ending {
  /** As the caller sent it. */
  readonly call: Call;
  /** Ids of the memory items that were put into its prompt. */
  readonly recalled: readonly string[];
  readonly facts: CallFacts;
  readonly failed: readonly Attempt[];
  readonly endedAt: number;
}

/** What is known of a call before its first attempt. */
export function factsOf(call: Call, plan: Plan, holds?: Holds): CallFacts {
  return {
    id: call.id,
    startedAt: call.startedAt,
    projectId: call.caller.projectId,
    keyId: call.caller.keyId,
    keyPrefix: call.caller.keyPrefix,
    source: call.source,
    sourceGiven: call.sourceGiven,
    route: call.route,
    modelAsked: call.modelAsked.slice(0, longestName),
    stream: call.stream,
    memory: call.memory,
    correlation: call.correlation,
    plan: plan.lines,
    bodyBytes: call.body.length,
    ...(holds?.isUnmetered && { unmetered: true as const }),
  };
}

/** A call that a vendor answered, whole or in part. */
export function settleAnswered(ending: Ending, attempt: OpenAttempt, reading: AnswerReading, outcome: Outcome): SettledCall {
  const { call, facts, failed, endedAt } = ending;
  const { candidate } = attempt;
  const { price } = candidate;
  const { tokens, isEstimated } = countTokens(call, reading, outcome);
  const lacksSearches = reading.searches === undefined && price !== null && isChargedBySearch(call, price);
  const searches = lacksSearches ? estimateSearches(call) : reading.searches;
  const costNanos = price === null ? null : costOf(tokens, price, searches);
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
      cache: cacheOf(call),
      tokens,
      costNanos,
      ...(searches !== undefined && { units: { searches } }),
      estimated: isEstimated || lacksSearches,
      durationMs: endedAt - call.startedAt,
      firstByteMs: attempt.startedAt + attempt.firstByteMs - call.startedAt,
      attempts: [...failed, last],
    },
    content: contentOf(ending, reading.turn),
  };
}

/** A call whose answer a content rule kept back: charged, since the vendor did its work, and neither the answer's text kept nor the call remembered. */
export function settleBlocked(ending: Ending, attempt: OpenAttempt, reading: AnswerReading, error: GatewayError): SettledCall {
  const { result, ...settled } = settleAnswered(ending, attempt, reading, 'ok');
  return {
    ...settled,
    result: { ...result, outcome: 'refused', status: error.status, code: error.code },
    content: contentOf(ending, null),
  };
}

/** A call that the response cache answered: no attempt, no tokens, no cost. `error`: a content rule kept the answer back. */
export function settleHit(
  ending: Ending,
  { model, reading }: Pick<Hit, 'model' | 'reading'>,
  { outcome, error }: { outcome: Outcome; error: GatewayError | null },
): SettledCall {
  const { call, facts, endedAt } = ending;
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
    content: contentOf(ending, error ? null : reading.turn),
  };
}

/** A call that no vendor answered, as far as anybody knows: of outcome `unknown` the last attempt may have been. */
export function settleFailed(ending: Ending, error: GatewayError, outcome: Outcome): SettledCall {
  const { call, facts, failed, endedAt } = ending;
  const cut = outcome === 'unknown' ? failed.at(-1) : undefined;
  return {
    facts,
    result: {
      outcome,
      // 499: the caller closed the connection before an answer could be sent; nobody has seen this status.
      status: outcome === 'client_left' ? 499 : error.status,
      code: error.code,
      model: cut ? `${cut.provider}/${cut.model}` : null,
      cache: cacheOf(call),
      tokens: cut?.tokens ?? noTokens,
      costNanos: cut ? cut.costNanos : 0,
      estimated: cut !== undefined,
      durationMs: endedAt - call.startedAt,
      firstByteMs: null,
      attempts: failed,
    },
    content: contentOf(ending, null),
  };
}

/** Only chat and messages have a response cache (specification 4.5). */
export function cacheOf({ route }: Call): 'miss' | null {
  return route === 'chat' || route === 'messages' ? 'miss' : null;
}

/** Prompts are stored for chat, messages and responses (decisions 9). */
function contentOf({ call: { route, body, isOwn }, recalled }: Ending, answer: AssistantTurn | null): CallContent | null {
  if (isOwn) return null;
  if (route !== 'chat' && route !== 'messages' && route !== 'responses') return null;
  return { request: body, answer, ...(recalled.length > 0 && { recalled }) };
}

/** The vendor's final counts; where they never came, what was sent and delivered is estimated (lessons 11). */
function countTokens(call: Call, { tokens, isFinal, turn }: AnswerReading, outcome: Outcome): { tokens: Tokens; isEstimated: boolean } {
  if (tokens !== null && isFinal) return { tokens, isEstimated: false };
  const characters = turn.toolCalls.reduce((sum, tool) => sum + tool.name.length + tool.arguments.length, turn.text.length);
  const delivered = estimateTokens(characters);
  const known = tokens ?? noTokens;
  // Some vendors count all of the input as nothing until their last word.
  const isInputKnown = known.input + known.cachedInput + known.cacheWrite + known.cacheWrite1h > 0;
  const input = isInputKnown ? known.input : estimateTokens(call.body.length);
  return {
    tokens: { ...known, input, output: Math.max(known.output, delivered) },
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
