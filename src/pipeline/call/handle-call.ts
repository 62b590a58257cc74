/**
 * Plans, prepares, admits and attempts a call of an inference route, and delivers its response. No matter how a call
 * ends, it's in the journal before we send the last byte of its response. See docs/architecture/request-lifecycle.md.
 */
import type { Admission } from '../../ceilings/admission.ts';
import { hasCostCeiling, type Limits } from '../../ceilings/counters.ts';
import type { Reservation } from '../../ceilings/reservation.ts';
import type { Attempt, Call, Caller, CallMetadata, Outcome, SettledCall } from '../../core/call.ts';
import { type Candidate, connectionKey } from '../../core/candidate.ts';
import { GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { rejectOtherModels } from '../../dialects/json/body-members.ts';
import { type ChainResult, runChain } from '../../failover/chain.ts';
import { isProviderFailure } from '../../failover/classify-failure.ts';
import type { PlaceRules } from '../../guardrails/rules.ts';
import type { Recall } from '../../memory/recall/recall.ts';
import type { TierRequest } from '../../routing/classify.ts';
import type { Plan, Planner } from '../../routing/plan.ts';
import { requiresTags } from '../../routing/rules.ts';
import type { StreamResponse, VendorResponse } from '../../vendors/text.ts';
import type { CachedResponse } from '../cache/lru-store.ts';
import type { CacheHit, CacheWriter, ResponseCache } from '../cache/response-cache.ts';
import { affinityOf, conversationPosition } from './affinity.ts';
import { type AttemptChain, type AttemptDeps, createAttemptChain, type Responded } from './attempt.ts';
import { recordFailure, requestReader } from './attempt-error.ts';
import { type BudgetReservation, createBudgetReservation } from './budget-reservation.ts';
import { type CallResponse, once } from './call-response.ts';
import type { CallCancellation } from './cancellation.ts';
import { toChainFailure } from './chain-error.ts';
import { type DeliverStream, deliverStream } from './deliver-stream.ts';
import { createRuleEnforcer, type RuleEnforcerDeps } from './enforce-rules.ts';
import { createInternalCompletion } from './internal-completion.ts';
import { limitsFor, type ProjectContext } from './project-context.ts';
import { type RecalledCall, recallIntoCall } from './recall-step.ts';
import { createRespondFromCache } from './respond-from-cache.ts';
import { type CallEnd, cacheStatusFor, logCall, settleFailed, settleResponse, settleUnsent, toTextCallMetadata } from './settle.ts';
import { countChoices, usageBounds } from './usage-bounds.ts';
import type { UsageEstimates } from './usage-estimates.ts';

export interface HandleCallDeps extends AttemptDeps, RuleEnforcerDeps {
  readonly planner: Planner;
  readonly chooseTier: (request: TierRequest) => Promise<string>;
  readonly recall: Recall;
  readonly responseCache: ResponseCache;
  /** The configuration's revision. We ignore responses that were cached under a different one. */
  readonly revision: number;
  /** Returns the ceilings of a key. Throws `limits_unavailable`. */
  readonly getKeyCeilings: (caller: Caller) => Promise<Limits['key']>;
  readonly admission: Admission;
  /** All calls of the process share these estimates. */
  readonly usageEstimates: UsageEstimates;
}

/** Throws a GatewayError. If the call reached a vendor, it has already been recorded when this throws. */
export type HandleCall = (call: Call, project: ProjectContext, cancellation: CallCancellation) => Promise<CallResponse>;

const streamType = 'text/event-stream';
const none: readonly string[] = [];

export function createHandleCall(deps: HandleCallDeps): HandleCall {
  const { planner, chooseTier, recall, responseCache, revision, getKeyCeilings, admission, usageEstimates } = deps;
  const { breakers, pools, journal, clock, logger } = deps;
  const toChain = createAttemptChain(deps);
  const { checkInput, checkResponse, checkBytes } = createRuleEnforcer(deps);

  const respondFromCache = createRespondFromCache({ clock, checkBytes, record });

  return handleCall;

  async function handleCall(call: Call, project: ProjectContext, cancellation: CallCancellation): Promise<CallResponse> {
    const limits = limitsFor(call, project, await getKeyCeilings(call.caller));
    const estimates = limits.key.tpm.limit === null ? null : usageEstimates;
    const boundsOf = (sent: Call, candidates: readonly Candidate[]) => usageBounds(sent, candidates, estimates);
    const admit: BudgetReservation['admit'] = (sent, candidates) =>
      admission.admit({ limits, startedAt: call.startedAt, bounds: () => boundsOf(sent, candidates) });
    // Only `auto` and recall can lead to internal model calls before admission, so only these calls have to reserve
    // their budget early.
    const budget = call.requestedModel === 'auto' || call.memory.mode === 'recall' ? createBudgetReservation(admit, boundsOf) : null;
    const received: ReceivedCall = { call, project, cancellation, requiresPrice: hasCostCeiling(limits), check: null };
    try {
      const plan = budget && call.requestedModel === 'auto' ? await planTier(received, budget) : planFor(received, null);
      if (!project.mayCall) throw gatewayError('subscription_required', { refusal: { reason: 'calls_off' } });
      if (received.requiresPrice || call.caller.models !== null || requiresTags({ project, caller: call.caller }))
        rejectOtherModels(call.spans);
      const { candidates } = plan;
      // Evaluating content rules takes CPU time, so we reserve the budget first. This way, a key that has exceeded its
      // ceilings doesn't use up any CPU time.
      const { input } = project.rules;
      let withRecall: RecalledCall | null = null;
      if (budget && call.memory.mode === 'recall') {
        // Recall may send the prompt to a model, so the content rules have to check it first. If the budget can't be
        // reserved, recall won't call a model, so it's fine to check the prompt later.
        if (input && (await budget.reserveEarly(call, candidates))) await checkPrompt(received, input);
        withRecall = await recallIntoCall({ call, recall, budget, candidates, remainingMs: cancellation.remainingMs() });
      }
      const planned = readCache(received, plan, withRecall);
      if (planned.hit) {
        if (input) await checkPrompt(received, input);
        return await respondFromCache(planned, planned.hit);
      }
      const reservation = await (budget ? budget.admit(planned.sent, candidates) : admit(planned.sent, candidates));
      if (input) await checkPrompt(received, input, reservation);
      return await attemptCall(planned, reservation);
    } finally {
      budget?.release();
    }
  }

  /**
   * Checks the prompt against the project's input rules. If this is called again for the same call, it returns the
   * first result. If the prompt doesn't pass, we release `reservation`, and the call isn't recorded.
   */
  async function checkPrompt(received: ReceivedCall, rules: PlaceRules, reservation?: Reservation): Promise<void> {
    const { call, cancellation } = received;
    received.check ??= checkInput(call, rules, cancellation.unsentSignal);
    try {
      await received.check;
    } catch (error) {
      reservation?.release();
      if (!(error instanceof VendorError)) throw error;
      throw toChainFailure({ kind: 'aborted', failures: [], cut: null }, cancellation).error;
    }
  }

  /**
   * Looks up the call in the response cache. Returns the call with its cached response, or with a writer that stores
   * its response.
   */
  function readCache(received: ReceivedCall, plan: Plan, withRecall: RecalledCall | null): PlannedCall {
    const { call, project } = received;
    const sent = withRecall?.call ?? call;
    const recalled = withRecall?.recalled.itemIds ?? none;
    const recalledSubjects = withRecall?.recalled.subjects ?? none;
    const { candidates } = plan;
    const { hit, writer } = responseCache.lookup({ call: sent, recalledSubjects, settings: project.cache, candidates, revision });
    return { call, project, cancellation: received.cancellation, plan, sent, recalled, hit, cacheWriter: writer };
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

  /** Throws `no_route`. */
  function planFor({ call, project, requiresPrice }: ReceivedCall, autoTier: string | null): Plan {
    const { caller, source, route, requestedModel } = call;
    const conversation = () => conversationPosition(call);
    return planner.plan({ caller, project, source, route, requestedModel, autoTier, requiresPrice, prompt: call, conversation });
  }

  async function planTier(received: ReceivedCall, budget: BudgetReservation): Promise<Plan> {
    const { call, project, cancellation } = received;
    const { source, route, requestedModel, body, spans } = call;
    const prepare = async (): Promise<boolean> => {
      const candidates = candidatesOrNone(() => planFor(received, null));
      if (!(await budget.reserveEarly(call, candidates))) return false;
      if (project.rules.input) await checkPrompt(received, project.rules.input);
      return true;
    };
    const complete = createInternalCompletion({ handleCall, prepare, clock, call, project });
    const remainingMs = cancellation.remainingMs();
    return planFor(received, await chooseTier({ project, source, route, requestedModel, body, spans, remainingMs, complete }));
  }

  /**
   * Tries the candidates in order and returns the first response. If no candidate responds, it settles the call and
   * throws. It also ends the reservation if anything else goes wrong.
   */
  async function attemptCall(planned: PlannedCall, reservation: Reservation): Promise<CallResponse> {
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
    const settled = responded
      ? settleUnsent(end, responded.attempt, summaryOf(responded.response), { error, outcome: 'failed' })
      : settleFailed(end, error, 'failed');
    await settle(admitted, settled);
    return error;
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

  /** Logs the call and passes it to the journal, both in the same turn of the event loop. */
  function record(call: Call, settled: SettledCall): Promise<void> {
    logCall(logger, call, settled);
    return journal.settle(settled);
  }
}

/**
 * Returns the candidates of a plan. The list is empty if the default tier has no candidates, because the classifier may
 * still choose a different tier.
 */
function candidatesOrNone(plan: () => Plan): readonly Candidate[] {
  try {
    return plan().candidates;
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'no_route') return [];
    throw error;
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

interface ReceivedCall {
  readonly call: Call;
  readonly project: ProjectContext;
  readonly cancellation: CallCancellation;
  /** True if a cost ceiling applies to the call. We then skip models that have no price. */
  readonly requiresPrice: boolean;
  check: Promise<void> | null;
}

interface PreparedCall {
  readonly call: Call;
  readonly project: ProjectContext;
  readonly cancellation: CallCancellation;
  /**
   * The call as we send it to vendors, i.e. with the recalled memories in its body. Use it for the cache and the bounds
   * as well. Only the record contains the caller's own body, which is in `call`.
   */
  readonly sent: Call;
  /** The ids of the recalled memory items. */
  readonly recalled: readonly string[];
  readonly cacheWriter: CacheWriter | null;
}

interface PlannedCall extends PreparedCall {
  /** The plan before its candidates are reordered by the vendors' current health. */
  readonly plan: Plan;
  readonly hit: CacheHit | null;
}

interface AdmittedCall extends PreparedCall {
  readonly candidates: readonly Candidate[];
  readonly reservation: Reservation;
  readonly metadata: CallMetadata;
  isSettled: boolean;
  /** Tells the pool that its member has finished this request. */
  endLoad?: (() => void) | undefined;
}
