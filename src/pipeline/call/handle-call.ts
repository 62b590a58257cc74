/**
 * Plans, prepares and admits a call of an inference route. Then `serve-call.ts` takes over, unless the response is in
 * the cache. No matter how a call ends, it's in the journal before we send the last byte of its response. See
 * docs/architecture/request-lifecycle.md.
 */
import type { Admission } from '../../ceilings/admission.ts';
import { hasCostCeiling, type Limits } from '../../ceilings/counters.ts';
import type { Reservation } from '../../ceilings/reservation.ts';
import { type Call, type Caller, isPromptRoute, type SettledCall } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { GatewayError, gatewayError, VendorError } from '../../core/errors.ts';
import { rejectOtherModels } from '../../dialects/json/body-members.ts';
import { rejectAddedModels } from '../../dialects/routes/added-tools.ts';
import type { PlaceRules } from '../../guardrails/rules.ts';
import type { Recall } from '../../memory/recall/recall.ts';
import type { TierRequest } from '../../routing/classify.ts';
import type { Plan, Planner } from '../../routing/plan.ts';
import { requiresTags } from '../../routing/rules.ts';
import type { CacheHit, ResponseCache } from '../cache/response-cache.ts';
import { conversationPosition } from './affinity.ts';
import type { AttemptDeps } from './attempt.ts';
import { type BudgetReservation, createBudgetReservation } from './budget-reservation.ts';
import type { CallResponse } from './call-response.ts';
import type { CallCancellation } from './cancellation.ts';
import { toChainFailure } from './chain-error.ts';
import { createRuleEnforcer, type RuleEnforcerDeps } from './enforce-rules.ts';
import { createInternalCompletion } from './internal-completion.ts';
import { limitsFor, type ProjectContext } from './project-context.ts';
import { type RecalledCall, recallIntoCall } from './recall-step.ts';
import { createRespondFromCache } from './respond-from-cache.ts';
import { createServeCall, type PlannedCall } from './serve-call.ts';
import { logCall } from './settle.ts';
import { usageBounds } from './usage-bounds.ts';
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

const none: readonly string[] = [];

export function createHandleCall(deps: HandleCallDeps): HandleCall {
  const { planner, chooseTier, recall, responseCache, revision, getKeyCeilings, admission, usageEstimates } = deps;
  const { journal, clock, logger } = deps;
  const { checkInput, checkResponse, checkBytes } = createRuleEnforcer(deps);

  const respondFromCache = createRespondFromCache({ clock, checkBytes, record });
  const serveCall = createServeCall({ ...deps, checkResponse, record });

  return handleCall;

  async function handleCall(call: Call, project: ProjectContext, cancellation: CallCancellation): Promise<CallResponse> {
    const limits = limitsFor(call, project, await getKeyCeilings(call.caller));
    const estimates = limits.key.tpm.limit === null ? null : usageEstimates;
    const boundsOf = (sent: Call, candidates: readonly Candidate[]) => usageBounds(sent, candidates, estimates);
    const admit: BudgetReservation['admit'] = (sent, candidates) =>
      admission.admit({ limits, startedAt: call.startedAt, bounds: () => boundsOf(sent, candidates) });
    // For `auto` and recall, we may call other models before this call is admitted. That's why only these calls have to
    // reserve their budget early.
    const budget = call.requestedModel === 'auto' || call.memory.mode === 'recall' ? createBudgetReservation(admit, boundsOf) : null;
    const received: ReceivedCall = { call, project, cancellation, requiresPrice: hasCostCeiling(limits), check: null };
    try {
      const plan = budget && call.requestedModel === 'auto' ? await planTier(received, budget) : planFor(received, null);
      if (!project.mayCall) throw gatewayError('subscription_required', { refusal: { reason: 'calls_off' } });
      if (received.requiresPrice || call.caller.models !== null || requiresTags({ project, caller: call.caller })) {
        rejectOtherModels(call.body, call.spans);
        if (isPromptRoute(call.route)) rejectAddedModels(call.body);
      }
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
      return await serveCall(planned, reservation);
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
  function readCache(received: ReceivedCall, plan: Plan, withRecall: RecalledCall | null): PlannedCall & { readonly hit: CacheHit | null } {
    const { call, project } = received;
    const sent = withRecall?.call ?? call;
    const recalled = withRecall?.recalled.itemIds ?? none;
    const recalledSubjects = withRecall?.recalled.subjects ?? none;
    const { candidates } = plan;
    const { hit, writer } = responseCache.lookup({ call: sent, recalledSubjects, settings: project.cache, candidates, revision });
    return { call, project, cancellation: received.cancellation, plan, sent, recalled, hit, cacheWriter: writer };
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

interface ReceivedCall {
  readonly call: Call;
  readonly project: ProjectContext;
  readonly cancellation: CallCancellation;
  /** True if a cost ceiling applies to the call. We then skip models that have no price. */
  readonly requiresPrice: boolean;
  check: Promise<void> | null;
}
