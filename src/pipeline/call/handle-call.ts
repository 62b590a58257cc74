/**
 * The story of a call: plan, rules, recall, cache, admit, attempt, settle. Whatever happens, a call that reached a vendor is in the journal
 * before the last byte of its answer leaves.
 */
import type { Admission } from '../../ceilings/admission.ts';
import type { Limits } from '../../ceilings/counters.ts';
import { hasCostCeiling } from '../../ceilings/counters.ts';
import type { Call, CallResult, Candidate, Outcome, SettledCall } from '../../core/call.ts';
import { GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Recall } from '../../memory/recall/recall.ts';
import type { Logger } from '../../observability/logger.ts';
import type { TierRequest } from '../../routing/classify.ts';
import type { Plan, Planner } from '../../routing/plan.ts';
import type { StreamResponse, VendorResponse } from '../../vendors/text.ts';
import { replayCached } from '../cache/replay-cached.ts';
import type { CacheHit, ResponseCache } from '../cache/response-cache.ts';
import type { AttemptDeps } from './attempt.ts';
import { createAttemptChain } from './attempt.ts';
import { type BudgetReservation, createBudgetReservation } from './budget-reservation.ts';
import type { CallCancellation } from './cancellation.ts';
import { createRuleEnforcer } from './enforce-rules.ts';
import { createInternalCompletion } from './internal-completion.ts';
import type { ProjectContext } from './project-context.ts';
import { recallIntoCall } from './recall-step.ts';
import type { CallEnd } from './settle.ts';
import { cacheStatusFor, logCall, settleBlocked, settleCacheHit, settleFailed, settleResponse, toCallMetadata } from './settle.ts';
import { usageBounds } from './usage-bounds.ts';

type CacheStatus = CallResult['cache'];

/** What goes back to the caller. `pieces` must be read to the end or returned: only then is the call settled. */
export type CallResponse =
  | {
      readonly kind: 'plain';
      readonly status: number;
      readonly contentType: string;
      readonly bytes: Buffer;
      readonly model: string;
      readonly cache: CacheStatus;
    }
  | { readonly kind: 'stream'; readonly chunks: AsyncGenerator<Buffer, void>; readonly model: string; readonly cache: CacheStatus };

export interface HandleCallDeps extends AttemptDeps {
  readonly planner: Planner;
  /** Chooses for `auto`; a promise only where a model is asked. */
  readonly chooseTier: (request: TierRequest) => string | Promise<string>;
  readonly recall: Recall;
  readonly responseCache: ResponseCache;
  /** Ceilings of a key; a promise only when they must be read. Throws `limits_unavailable`. */
  readonly getKeyCeilings: (keyId: string) => Limits['key'] | Promise<Limits['key']>;
  readonly admission: Admission;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly logger: Logger;
}

const streamType = 'text/event-stream';

export type HandleCall = (call: Call, project: ProjectContext, cancellation: CallCancellation) => Promise<CallResponse>;

export function createHandleCall(deps: HandleCallDeps): HandleCall {
  const { planner, chooseTier, recall, responseCache, getKeyCeilings, admission, journal, clock, logger } = deps;
  const attemptChain = createAttemptChain(deps);
  const { checkInput, checkResponse: checkAnswer, checkBytes: checkWhole } = createRuleEnforcer({ logger });

  /** Throws GatewayError; the call has been recorded then, if a vendor was asked. */
  async function handleCall(call: Call, project: ProjectContext, control: CallCancellation): Promise<CallResponse> {
    const { caller, source, startedAt } = call;
    const found = getKeyCeilings(caller.keyId);
    const key = found instanceof Promise ? await found : found;
    const limits: Limits = { projectId: caller.projectId, keyId: caller.quotaKeyId, source, key, project };
    const budget = createBudgetReservation((toSend, candidates) =>
      admission.admit({ limits, startedAt, bounds: () => usageBounds(toSend, candidates) }),
    );
    try {
      return await runCall({ call, project, control, budget, requiresPrice: hasCostCeiling(limits) });
    } finally {
      budget.release();
    }
  }

  async function runCall({ call, project, control, budget, requiresPrice }: RunCallOptions): Promise<CallResponse> {
    const { caller, source, route, modelAsked } = call;
    const planFor = (autoTier: string | null): Plan =>
      planner.plan({ caller, project, source, route, modelAsked, autoTier, requiresPrice });
    const reserveBudget = (): Promise<boolean> =>
      budget.reserveEarly(
        call,
        candidatesOrNone(() => planFor(null)),
      );
    const plan = planFor(modelAsked === 'auto' ? await tierFor({ call, project, control, mayAsk: reserveBudget }) : null);
    if (!project.mayCall) throw gatewayError('subscription_required');
    if (project.rules.input) await checkInput(call, project.rules.input);
    // Vendors, cache and bounds go by the body as recall left it; the records hold what the caller sent.
    const { candidates } = plan;
    const known = call.memory.mode === 'recall' ? await recallIntoCall({ call, recall, budget, candidates }) : null;
    const asked = known?.call ?? call;
    const recalled = known?.recalled.itemIds ?? [];
    const recalledSubjects = known?.recalled.subjects ?? [];
    const { hit, writer: cacheWriter } = responseCache.lookup({ call: asked, recalledSubjects, settings: project.cache, candidates });
    if (hit) return respondFromCache({ hit, ending: { call, recalled, facts: toCallMetadata(call, plan), failed: [] }, project, control });

    const admitted = budget.admit(asked, candidates);
    const reservation = admitted instanceof Promise ? await admitted : admitted;
    // Only now: what a breaker lets through must be tried, and what is kept is found however the vendors are.
    const ordered = planner.order(plan, { caller, project });
    const facts = toCallMetadata(call, ordered, reservation);
    const outcome = await attemptChain({ call: asked, metadata: facts, candidates: ordered.candidates, cancellation: control }).catch(
      (error: unknown) => {
        // The call was not made, and leaves no record.
        reservation.release();
        throw error;
      },
    );
    const ending = { call, recalled, facts, failed: outcome.failed };
    const settle = (settled: SettledCall): Promise<void> => record({ ...settled, result: reservation.settle(settled.result) });
    if (outcome.kind === 'failed') {
      await settle(settleFailed({ ...ending, endedAt: clock.now() }, outcome.error, outcome.outcome));
      throw outcome.error;
    }
    const { attempt } = outcome;
    const { answer, error } = project.rules.output
      ? await checkAnswer(call, project.rules.output, outcome.response)
      : { answer: outcome.response, error: null };
    if (error) {
      await settle(settleBlocked({ ...ending, endedAt: clock.now() }, attempt, summaryOf(answer), error));
      throw error;
    }
    const common = { model: attempt.candidate.id, cache: cacheStatusFor(call) };
    /** Only whole, good answers are kept. */
    const end = async (reading: ResponseSummary, how: Outcome): Promise<void> => {
      if (how === 'ok' && answer.status === 200 && reading.finished === true) storeInCache();
      await settle(settleResponse({ ...ending, endedAt: clock.now() }, attempt, reading, how));
    };
    const storeInCache = (): void => {
      if (answer.kind === 'plain') cacheWriter?.append(answer.bytes);
      cacheWriter?.commit({ model: attempt.candidate.id, contentType: answer.kind === 'plain' ? answer.contentType : streamType });
    };
    if (answer.kind === 'plain') {
      await end(answer.reading, 'ok');
      return { kind: 'plain', status: answer.status, contentType: answer.contentType, bytes: answer.bytes, ...common };
    }
    return { kind: 'stream', chunks: deliver({ call, answer, end, record: cacheWriter?.append }), ...common };
  }
  return handleCall;

  /** The tier of a call that leaves the choice to the gateway. */
  function tierFor({ call, project, control, mayAsk: reserveBudget }: TierOptions): string | Promise<string> {
    const { source, route, modelAsked, body, spans } = call;
    const complete = createInternalCompletion({ handleCall, reserveBudget, clock, call, project });
    return chooseTier({ project, source, route, modelAsked, body, spans, remainingMs: control.remainingMs(), complete });
  }

  /** No vendor is asked, so the call has no attempts, costs nothing and stands in the journal with its end alone. */
  async function respondFromCache({ hit, ending, project, control }: CacheHitOptions): Promise<CallResponse> {
    control.clearDeadline();
    const { call } = ending;
    const { bytes, contentType, model, reading } = hit;
    // The rules in force now; they may be stricter than those that the answer has passed.
    const error = project.rules.output ? await checkWhole(call, project.rules.output, bytes) : null;
    if (error) {
      await record(settleCacheHit({ ...ending, endedAt: clock.now() }, hit, { outcome: 'refused', error }));
      throw error;
    }
    const end = (_reading: ResponseSummary, outcome: Outcome): Promise<void> =>
      record(settleCacheHit({ ...ending, endedAt: clock.now() }, hit, { outcome, error: null }));
    if (call.stream) return { kind: 'stream', chunks: deliver({ call, answer: replayCached(hit), end }), model, cache: 'hit' };
    await end(reading, 'ok');
    return { kind: 'plain', status: 200, contentType, bytes, model, cache: 'hit' };
  }

  /** The pieces of a stream, settled by `end` however it ends: whole, broken by the vendor, or left by the caller. */
  async function* deliver({ call, answer, end, record }: StreamDelivery): AsyncGenerator<Buffer, void> {
    const pieces = answer.pieces();
    let isSettled = false;
    const settleAs = async (how: 'ok' | 'interrupted' | 'client_left'): Promise<void> => {
      if (isSettled) return;
      isSettled = true;
      await end(answer.reading(), how);
    };
    try {
      for (;;) {
        const step = await pieces.next();
        if (!step.done) {
          record?.(step.value.bytes);
          if (step.value.isLast) await settleAs('ok');
          yield step.value.bytes;
          continue;
        }
        const ended = step.value;
        await settleAs(ended.kind === 'whole' ? 'ok' : 'interrupted');
        const event = ended.kind === 'broken' && !ended.errorForwarded ? routeCodecs[call.route].formatStreamError(ended.message) : null;
        if (event !== null) yield Buffer.from(event);
        return;
      }
    } catch (error) {
      if (!(error instanceof VendorError)) throw error;
      // The caller left: `finally` settles what was delivered.
    } finally {
      await pieces.return({ kind: 'whole' });
      await settleAs('client_left');
    }
  }

  async function record(settled: SettledCall): Promise<void> {
    await journal.settle(settled);
    logCall(logger, settled);
  }
}

/** The usual tier may be closed to a call that another one is going to be chosen for. */
function candidatesOrNone(plan: () => Plan): readonly Candidate[] {
  try {
    return plan().candidates;
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'no_route') return [];
    throw error;
  }
}

function summaryOf(answer: VendorResponse): ResponseSummary {
  return answer.kind === 'plain' ? answer.reading : answer.reading();
}

interface RunCallOptions {
  readonly call: Call;
  readonly project: ProjectContext;
  readonly control: CallCancellation;
  readonly budget: BudgetReservation;
  /** A ceiling of cost applies: models without a price are left out. */
  readonly requiresPrice: boolean;
}

interface TierOptions extends Pick<RunCallOptions, 'call' | 'project' | 'control'> {
  readonly mayAsk: () => Promise<boolean>;
}

/** A call that was found in the response cache. */
interface CacheHitOptions {
  readonly hit: CacheHit;
  readonly ending: Omit<CallEnd, 'endedAt'>;
  readonly project: ProjectContext;
  readonly control: CallCancellation;
}

/** A stream on its way to the caller. */
interface StreamDelivery {
  readonly call: Call;
  readonly answer: Pick<StreamResponse, 'pieces' | 'reading'>;
  readonly end: (reading: ResponseSummary, how: Outcome) => Promise<void>;
  /** Takes down what goes to the caller. */
  readonly record?: ((bytes: Buffer) => void) | undefined;
}
