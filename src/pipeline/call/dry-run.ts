/**
 * Finds out what would happen to a call. This runs the steps of `handle-call.ts` with the same planner, classifier,
 * ceilings and bounds, but without side effects. It doesn't send or reserve anything, and doesn't take the probe slot
 * of a breaker.
 *
 * We don't know the text of the call, so content rules are only listed and not evaluated, and a classifier that uses a
 * model isn't called.
 */
import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import {
  ceilingExceeded,
  countersFor,
  formatCounterKey,
  hasCostCeiling,
  type LimitedCounter,
  type Limits,
} from '../../ceilings/counters.ts';
import { boundOf, type UsageBounds } from '../../ceilings/reservation.ts';
import { type Call, type Caller, isDialect, type PlanEntry, type TextRoute } from '../../core/call.ts';
import { type Candidate, connectionKey } from '../../core/candidate.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Breakers } from '../../failover/breaker.ts';
import type { Canary, Catalog } from '../../routing/catalog.ts';
import { type Classifier, chooseTier } from '../../routing/classify.ts';
import { createPlanner, defaultTier, type Plan, type Planner } from '../../routing/plan.ts';
import type { PoolState } from '../../routing/pools.ts';
import { findTier, isRetired, type RoutingView, resolveModel } from '../../routing/rules.ts';
import { affinityOf } from './affinity.ts';
import { buildInternalCall } from './internal-call.ts';
import { limitsFor, type ProjectContext } from './project-context.ts';
import { usageBounds } from './usage-bounds.ts';

export interface DryRunDeps {
  readonly catalog: () => Catalog;
  readonly breakers: Breakers;
  readonly pools: PoolState;
  /** Returns the catalog fill setting for projects that don't have their own. */
  readonly catalogFill: () => boolean;
  readonly classifier: () => Classifier;
  readonly readCounters: ReadCounters;
  readonly clock: Clock;
}

export interface DryRunRequest {
  readonly project: { readonly slug: string; readonly settings: ProjectContext };
  readonly caller: Caller;
  /** The ceilings of the key. */
  readonly ceilings: Limits['key'];
  readonly source: string;
  readonly route: TextRoute;
  readonly requestedModel: string;
  readonly inputBytes: number;
  /** Null if the caller doesn't set a limit. */
  readonly maxOutputTokens: number | null;
}

/** Where a tier can be defined, in order of precedence. */
export type TierOrigin = 'application' | 'project' | 'configuration';

export interface DryRunCandidate {
  readonly id: string;
  /** The member that would get the call, if the provider has a pool. */
  readonly member: string | null;
  readonly isFilled: boolean;
  readonly isRetired: boolean;
  /**
   * False if the breaker of the model's provider is open or cooling down. We try such a model after the healthy ones.
   */
  readonly isHealthy: boolean;
}

/** A ceiling that applies to the call. Ceilings are listed in the order in which admission checks them. */
export interface DryRunCeiling {
  readonly counter: LimitedCounter;
  readonly used: number;
  readonly reserved: number;
  /** The amount that this call would reserve on the ceiling. */
  readonly bound: number;
  readonly isDenied: boolean;
}

export interface DryRun {
  /** The tier that the call would use. Null if the requested name isn't a configured tier. */
  readonly tier: { readonly name: string; readonly origin: TierOrigin } | null;
  /**
   * The tier's canary, or null if it has none. `candidates` always lists the models for conversations that don't try
   * the canary.
   */
  readonly canary: Canary | null;
  /** How we choose the tier if the caller asks for `auto`. Null if it asks for anything else. */
  readonly classifier: Classifier | null;
  /** The candidates in the order in which we'd try them. */
  readonly candidates: readonly DryRunCandidate[];
  readonly skipped: readonly PlanEntry[];
  readonly bounds: UsageBounds;
  readonly ceilings: readonly DryRunCeiling[];
  /** Says whether the response cache would be searched for the call, or why it wouldn't. */
  readonly cache: 'searched' | 'disabled' | 'route_not_cached';
  /** The error if the call would be refused before it reaches a vendor, or null if it would be sent. */
  readonly refusal: GatewayError | null;
}

export type RunDry = (request: DryRunRequest) => Promise<DryRun>;

export function createDryRun({ catalog, breakers, pools, catalogFill, classifier, readCounters, clock }: DryRunDeps): RunDry {
  const withoutProbes = { ...breakers, tryAcquire: breakers.canAcquire };

  return async (request) => {
    const planner = createPlanner({ catalog: catalog(), breakers: withoutProbes, catalogFill: catalogFill(), loads: pools.loads });
    const { caller, source, route, requestedModel, ceilings: keyCeilings } = request;
    const project = request.project.settings;
    const call = buildCall(request, clock.now());
    const limits = limitsFor({ caller, source }, project, keyCeilings);
    const autoTier = await chooseTierOf(call, project);
    const planRequest = { caller, project, source, route, requestedModel, autoTier, requiresPrice: hasCostCeiling(limits), prompt: call };
    const { plan, skipped, error } = tryPlan(planner, planRequest);
    const view: RoutingView = { catalog: catalog(), project, source };
    const bounds = usageBounds(call, plan.candidates);
    const ceilings = error ? [] : await checkCeilings(limits, bounds);
    const denied = ceilings.find(({ isDenied }) => isDenied);
    const tier = tierOf(view, requestedModel === 'auto' ? usedTier(view, autoTier, route, plan) : requestedModel);
    return {
      tier,
      canary: (tier?.origin === 'configuration' && view.catalog.canaries.get(tier.name)) || null,
      classifier: requestedModel === 'auto' && isDialect(route) ? classifier() : null,
      candidates: planner
        .order(plan, { ...planRequest, affinity: () => affinityOf(call, pools) })
        .candidates.map((candidate) => toReport(candidate, plan, request)),
      skipped,
      bounds,
      ceilings,
      cache: isDialect(route) ? (project.cache.enabled ? 'searched' : 'disabled') : 'route_not_cached',
      refusal:
        error ?? (project.mayCall ? null : gatewayError('subscription_required')) ?? (denied ? ceilingExceeded(denied.counter) : null),
    };
  };

  function chooseTierOf({ source, route, requestedModel, body, spans }: Call, project: ProjectContext): Promise<string> {
    // A dry run doesn't call any model, so the classifier falls back to `standard`, just as it does if its model fails.
    const complete = () => Promise.reject(new Error('expected no model to be called in a dry run'));
    return chooseTier(
      { catalog: catalog(), classifier: classifier() },
      { project, source, route, requestedModel, body, spans, remainingMs: null, complete },
    );
  }

  async function checkCeilings(limits: Limits, bounds: UsageBounds): Promise<DryRunCeiling[]> {
    const counters = countersFor(limits, clock.now());
    const counted = await readCounters(
      limits.projectId,
      counters.map(({ key }) => key),
    );
    return counters.map((counter) => {
      const { used, reserved } = counted.get(formatCounterKey(counter.key)) ?? { used: 0, reserved: 0 };
      const bound = boundOf(counter.key.ceiling, bounds);
      const remaining = counter.limit - used - reserved;
      // Like admission, allow a call to exceed what's left of the ceiling as long as no other call has a reservation.
      return { counter, used, reserved, bound, isDenied: remaining < 1 || (bound > remaining && reserved > 0) };
    });
  }

  function toReport(candidate: Candidate, { entries }: Plan, { caller, project }: DryRunRequest): DryRunCandidate {
    const { id, member } = candidate;
    return {
      id,
      member: member?.name ?? null,
      isFilled: entries.some((entry) => entry.model === id && entry.filled === true),
      isRetired: isRetired(project.settings, id),
      isHealthy: breakers.canAcquire(caller.projectId, connectionKey(candidate)),
    };
  }
}

const nothing: Plan = { candidates: [], entries: [] };

function tryPlan(
  planner: Planner,
  request: Parameters<Planner['plan']>[0],
): { plan: Plan; skipped: readonly PlanEntry[]; error: GatewayError | null } {
  try {
    const plan = planner.plan(request);
    return { plan, skipped: plan.entries.filter(({ skipped }) => skipped !== null), error: null };
  } catch (error) {
    if (!(error instanceof GatewayError && error.code === 'no_route')) throw error;
    return { plan: nothing, skipped: planner.explain(request), error };
  }
}

/**
 * Returns the tier whose models are in the plan. If the key may not use any model of the chosen tier, this is the
 * route's default tier.
 */
function usedTier(view: RoutingView, autoTier: string, route: TextRoute, { candidates }: Plan): string {
  const ids: readonly string[] = resolveModel(view, autoTier).ids;
  return candidates.some(({ id }) => ids.includes(id)) ? autoTier : defaultTier(route);
}

function tierOf(view: RoutingView, name: string): DryRun['tier'] {
  if (findTier(view, name) === null) return null;
  const application = view.project.applications.get(view.source);
  if (application && Object.hasOwn(application.tiers, name)) return { name, origin: 'application' };
  return { name, origin: Object.hasOwn(view.project.tiers, name) ? 'project' : 'configuration' };
}

/**
 * Builds a call of the requested size. It needs a real body, because the bounds and the classifier look at its bytes.
 */
function buildCall({ project, caller, source, route, requestedModel, inputBytes, maxOutputTokens }: DryRunRequest, now: number): Call {
  // Use words separated by spaces, so that the text resembles prose.
  const text = 'lorem '.repeat(Math.ceil(inputBytes / 6)).slice(0, inputBytes);
  return buildInternalCall({
    id: newId(now),
    route,
    caller,
    source,
    slug: project.slug,
    model: requestedModel,
    members: isDialect(route) ? { messages: [{ role: 'user', content: text }] } : { input: text },
    maxOutputTokens: maxOutputTokens ?? caller.defaultMaxOutputTokens ?? null,
    timeoutMs: 0,
    now,
  });
}
