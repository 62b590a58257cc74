/** Serves an admitted call: tries its candidates, delivers the response, and settles the call. */
import type { Reservation } from '../../ceilings/reservation.ts';
import type { Attempt, Call, CallMetadata, Outcome, SettledCall } from '../../core/call.ts';
import { type Candidate, connectionKey } from '../../core/candidate.ts';
import { GatewayError, gatewayError, type VendorError } from '../../core/errors.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { type ChainResult, runChain } from '../../failover/chain.ts';
import { isProviderFailure } from '../../failover/classify-failure.ts';
import type { PlaceRules } from '../../guardrails/rules.ts';
import type { Plan, Planner } from '../../routing/plan.ts';
import type { StreamResponse, VendorResponse } from '../../vendors/text.ts';
import type { CachedResponse } from '../cache/lru-store.ts';
import type { CacheWriter } from '../cache/response-cache.ts';
import { affinityOf } from './affinity.ts';
import { type AttemptChain, type AttemptDeps, createAttemptChain, type Responded } from './attempt.ts';
import { recordFailure, requestReader } from './attempt-error.ts';
import { type CallResponse, once } from './call-response.ts';
import type { CallCancellation } from './cancellation.ts';
import { toChainFailure } from './chain-error.ts';
import { type DeliverStream, deliverStream } from './deliver-stream.ts';
import type { createRuleEnforcer } from './enforce-rules.ts';
import type { ProjectContext } from './project-context.ts';
import {
  type CallEnd,
  cacheStatusFor,
  settleFailed,
  settleResponse,
  settleUnsent,
  toTextCallMetadata,
  type WinningAttempt,
} from './settle.ts';
import { countChoices } from './usage-bounds.ts';
import type { UsageEstimates } from './usage-estimates.ts';

interface ServeCallDeps extends AttemptDeps {
  readonly planner: Planner;
  readonly usageEstimates: UsageEstimates;
  readonly checkResponse: ReturnType<typeof createRuleEnforcer>['checkResponse'];
  /** Logs the call and writes its record to the journal. */
  readonly record: (call: Call, settled: SettledCall) => Promise<void>;
}

export interface PlannedCall {
  readonly call: Call;
  readonly project: ProjectContext;
  readonly cancellation: CallCancellation;
  /** The plan before its candidates are reordered by the vendors' current health. */
  readonly plan: Plan;
  /**
   * The call as we send it to vendors, i.e. with the recalled memories in its body. Use it for the cache and the bounds
   * as well. Only the record contains the caller's own body, which is in `call`.
   */
  readonly sent: Call;
  /** The ids of the recalled memory items. */
  readonly recalled: readonly string[];
  readonly cacheWriter: CacheWriter | null;
}

interface AdmittedCall extends Omit<PlannedCall, 'plan'> {
  readonly candidates: readonly Candidate[];
  readonly reservation: Reservation;
  readonly metadata: CallMetadata;
  isSettled: boolean;
  /** Tells the pool that its member has finished this request. */
  endLoad?: (() => void) | undefined;
}

const streamType = 'text/event-stream';

/** For a response like this one, we charge everything that the call has reserved. */
const unknownUsage: ResponseSummary = {
  tokens: null,
  isFinal: false,
  isPending: true,
  turn: { text: '', toolCalls: [] },
  generatedCharacters: 0,
};

export function createServeCall(deps: ServeCallDeps) {
  const { planner, usageEstimates, checkResponse, record, breakers, pools, clock, logger } = deps;
  const toChain = createAttemptChain(deps);

  return serveCall;

  /**
   * Tries the candidates in order and returns the first response. If no candidate responds, it settles the call and
   * throws. It also ends the reservation if anything else goes wrong.
   */
  async function serveCall(planned: PlannedCall, reservation: Reservation): Promise<CallResponse> {
    let admitted: AdmittedCall;
    let chain: AttemptChain;
    try {
      admitted = orderCandidates(planned, reservation);
      const { sent, metadata, candidates, cancellation } = admitted;
      chain = toChain({ call: sent, metadata, candidates, cancellation, reservation });
    } catch (cause) {
      reservation.release();
      throw cause;
    }
    let responded: Responded | null = null;
    try {
      responded = await runAttempts(admitted, chain);
      const { rules } = admitted.project;
      if (rules.output) responded = await applyOutputRules(admitted, responded, rules.output);
      const { response } = responded;
      if (response.kind === 'stream') return streamResponse(admitted, responded, response);
      await endCall(admitted, responded, response.summary, 'ok');
      const { status, contentType, bytes } = response;
      const { call, recalled } = admitted;
      const { attempt, changes } = responded;
      return { kind: 'plain', status, contentType, bytes, model: attempt.candidate.id, cache: cacheStatusFor(call), recalled, changes };
    } catch (cause) {
      if (admitted.isSettled) throw cause;
      if (chain.isJournaled) throw await settleUnexpected(admitted, chain.failed, responded ?? chain.unsent, cause);
      // If there hasn't been any attempt, the call isn't recorded, so there's nothing to settle.
      reservation.release();
      throw cause;
    }
  }

  /**
   * Sorts the candidates into the order in which we try them. This may take a breaker's probe slot, so we only do it
   * after admission, when we're sure to make an attempt. The response cache doesn't depend on this order.
   */
  function orderCandidates(planned: PlannedCall, reservation: Reservation): AdmittedCall {
    const { call, project, cancellation, sent, recalled, cacheWriter } = planned;
    const ordered = planner.order(planned.plan, { caller: call.caller, project, affinity: () => affinityOf(call, pools) });
    const metadata = toTextCallMetadata(call, ordered, reservation);
    const { candidates } = ordered;
    return { call, project, cancellation, sent, recalled, cacheWriter, candidates, reservation, metadata, isSettled: false };
  }

  /** Settles the call and throws if no candidate responds. */
  async function runAttempts(admitted: AdmittedCall, chain: AttemptChain): Promise<Responded> {
    const { call, cancellation } = admitted;
    let result: ChainResult<Responded>;
    try {
      result = await runChain(chain);
    } finally {
      cancellation.clearDeadline();
    }
    if (result.kind !== 'responded') {
      const { error, outcome } = toChainFailure(result, cancellation);
      await settle(admitted, settleFailed(endOf(admitted, chain.failed), error, outcome));
      throw error;
    }
    const { response, endLoad } = result.response;
    admitted.endLoad = endLoad;
    if (response.kind === 'stream') cancellation.lingerWhile(() => response.hasAllOutput(countChoices(call)));
    return result.response;
  }

  /** Settles a call that failed with an unexpected error, and returns the error for the caller. */
  async function settleUnexpected(
    admitted: AdmittedCall,
    failed: readonly Attempt[],
    responded: Responded | null,
    cause: unknown,
  ): Promise<unknown> {
    const error = toInternalError(cause);
    const end = endOf(admitted, failed);
    if (responded?.response.kind === 'stream') responded.response.chunks().close();
    await settle(admitted, responded ? settleWithheld(end, responded, error) : settleFailed(end, error, 'failed'));
    return error;
  }

  /**
   * Settles a call whose response we can't deliver. The error may come from computing the charge, and would then occur
   * here again. In that case we charge the reserved usage, or if that fails as well, record the cost as unknown. If we
   * didn't settle the call, its reservation would last until the process restarts.
   */
  function settleWithheld(end: CallEnd, { attempt, response }: Responded, error: GatewayError): SettledCall {
    const settleAs = (winner: WinningAttempt, summary: ResponseSummary): SettledCall =>
      settleUnsent(end, winner, summary, { error, outcome: 'failed' });
    for (const readSummary of [() => summaryOf(response), () => unknownUsage]) {
      try {
        return settleAs(attempt, readSummary());
      } catch (err) {
        logger.error({ err, call: end.call.id }, 'cannot compute the charge of a call');
      }
    }
    return settleAs({ ...attempt, candidate: { ...attempt.candidate, price: null } }, unknownUsage);
  }

  /** Checks the response against the output rules. If one blocks it, settles the call and throws. */
  async function applyOutputRules(admitted: AdmittedCall, responded: Responded, rules: PlaceRules): Promise<Responded> {
    const { response, error } = await checkResponse(admitted.call, rules, responded.response, admitted.cancellation.signal);
    if (!error) return { ...responded, response };
    const end = endOf(admitted, responded.failed);
    await settle(admitted, settleUnsent(end, responded.attempt, summaryOf(response), { error, outcome: 'refused' }));
    throw error;
  }

  /** Relays the stream and settles the call just before its last chunk is sent. */
  function streamResponse(admitted: AdmittedCall, responded: Responded, response: StreamResponse): CallResponse {
    const { call, recalled, cacheWriter } = admitted;
    const onEnd = (summary: ResponseSummary, outcome: Outcome, problem?: VendorError): Promise<void> =>
      endCall(admitted, responded, summary, outcome, problem);
    const hasAllOutput = (): boolean => response.hasAllOutput(countChoices(call));
    const deliver: DeliverStream = async (write) => {
      try {
        return await deliverStream({ call, response, onEnd, onChunk: cacheWriter?.append, hasAllOutput }, write);
      } catch (cause) {
        throw admitted.isSettled ? cause : await settleUnexpected(admitted, responded.failed, responded, cause);
      }
    };
    return {
      kind: 'stream',
      deliver: once(deliver),
      model: responded.attempt.candidate.id,
      cache: cacheStatusFor(call),
      recalled,
      changes: responded.changes,
    };
  }

  /** Settles a call that got a response, and caches it if it is complete. `problem` says why its stream broke. */
  async function endCall(
    admitted: AdmittedCall,
    responded: Responded,
    summary: ResponseSummary,
    end: Outcome,
    problem?: VendorError,
  ): Promise<void> {
    const { response, attempt, failed } = responded;
    const outcome = end === 'ok' && admitted.cancellation.cancelledBy() === 'client' ? 'client_left' : end;
    const { sent } = admitted;
    // Skip streams that broke before their first content, because the attempt has already reported those to the
    // breaker.
    if (response.kind === 'stream' && attempt.contentMs !== null && (end === 'ok' || (problem && isProviderFailure(problem))))
      breakers.recordStreamEnd(sent.caller.projectId, connectionKey(attempt.candidate), problem !== undefined);
    const describe = problem === undefined ? undefined : (last: Attempt) => recordFailure(logger, sent, last, problem, requestReader(sent));
    const { member } = attempt.candidate;
    if (member && summary.responseId !== undefined) pools.responses.set(summary.responseId, member.key);
    const settled = settleResponse(endOf(admitted, failed), attempt, summary, outcome, describe);
    const { caller, body } = sent;
    usageEstimates.observe(caller.quotaKeyId, { bodyBytes: body.length, choices: countChoices(sent) }, settled.result);
    const recorded = settle(admitted, settled);
    if (outcome === 'ok' && response.status === 200 && summary.finished === true)
      storeInCache(admitted.cacheWriter, response, { model: attempt.candidate.id, changes: responded.changes });
    await recorded;
  }

  function endOf({ call, sent, recalled, metadata }: AdmittedCall, failed: readonly Attempt[]): CallEnd {
    return { call, sent, recalled, metadata, failed, endedAt: clock.now() };
  }

  function settle(admitted: AdmittedCall, { metadata, result, content }: SettledCall): Promise<void> {
    const { call, reservation } = admitted;
    admitted.isSettled = true;
    admitted.endLoad?.();
    return record(call, { metadata, result: reservation.settle(result), content });
  }
}

/** Anything that isn't a GatewayError is a bug. */
function toInternalError(cause: unknown): GatewayError {
  return cause instanceof GatewayError ? cause : gatewayError('internal_error', { cause });
}

function storeInCache(writer: CacheWriter | null, response: VendorResponse, source: Pick<CachedResponse, 'model' | 'changes'>): void {
  if (response.kind === 'plain') writer?.append(response.bytes);
  writer?.commit({ ...source, contentType: response.kind === 'plain' ? response.contentType : streamType });
}

function summaryOf(response: VendorResponse): ResponseSummary {
  return response.kind === 'plain' ? response.summary : response.summary();
}
