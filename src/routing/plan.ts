/** Creates the plan of a call: the candidates in order, plus an entry for each model that was skipped. */
import type { Caller, PlanEntry, TextRoute } from '../core/call.ts';
import { type Candidate, connectionKey } from '../core/candidate.ts';
import type { Breakers } from '../failover/breaker.ts';
import { type Catalog, splitModelId } from './catalog.ts';
import { type PromptSize, splitByWindow } from './context-windows.ts';
import { findNearestName } from './nearest-name.ts';
import { explainNoRoute, lacksTags, noRoute, quoteName, refusalOf } from './no-route.ts';
import { type Affinity, type MemberLoads, orderMembers } from './pools.ts';
import { findResponsesSupport, hasProvider, isRetired, type ProjectRouting, tierNames } from './rules.ts';
import { type Selection, type SelectRequest, selectModels } from './select.ts';

export interface Plan {
  readonly candidates: readonly Candidate[];
  readonly entries: readonly PlanEntry[];
}

export interface PlanRequest {
  readonly caller: Caller;
  readonly project: ProjectRouting;
  /** The application that makes the call. If it has tiers of its own, they take precedence over the project's. */
  readonly source: string;
  readonly route: TextRoute;
  readonly requestedModel: string;
  /**
   * The tier that the classifier has chosen for `auto` (classify.ts). If this isn't set, or if the key isn't permitted
   * to use any of the tier's models, we use the default tier of the route.
   */
  readonly autoTier?: string | null;
  /** True if there's a cost ceiling. We then skip models without a price, with the reason `price_unknown`. */
  readonly requiresPrice?: boolean;
  /**
   * Returns a number from 0 to 1, which decides if a call tries a canary. It's the same for all calls of a
   * conversation. If it's null or there's no function, the call doesn't try any.
   */
  readonly conversation?: () => number | null;
  /** Set this to skip models whose window is too small for the prompt, with the reason `context_too_small`. */
  readonly prompt?: PromptSize;
}

/** Each planner belongs to one catalog, so a reload creates a new one. */
export interface PlannerDeps {
  readonly catalog: Catalog;
  readonly breakers: Breakers;
  /** The default for projects that haven't set catalog fill themselves. */
  readonly catalogFill: boolean;
  readonly loads: MemberLoads;
}

/** What we need to order the candidates of an existing plan. */
export interface OrderRequest extends Pick<PlanRequest, 'caller' | 'project'> {
  /** Says which members of a pool the call prefers. This is only called if a provider in the plan has a pool. */
  readonly affinity: () => Affinity;
}

export interface Planner {
  /**
   * Creates the plan as if all vendors were healthy. If there's no candidate, throws `no_route`
   * (docs/api/reference.md#no-route).
   */
  plan(request: PlanRequest): Plan;
  /**
   * Reorders the plan according to the vendors' current health, and splits candidates whose provider has a pool into
   * one per member. This may take the probe slot of a breaker, so only call it if you're going to send the call.
   */
  order(plan: Plan, request: OrderRequest): Plan;
  /** Call this after `plan` has thrown `no_route`. It returns the models that were skipped, with the reasons. */
  explain(request: PlanRequest): readonly PlanEntry[];
}

export function createPlanner({ catalog, breakers, catalogFill, loads }: PlannerDeps): Planner {
  const viewOf = (request: PlanRequest): SelectRequest => ({ ...request, catalog, catalogFill });
  const lastPlans = new WeakMap<Caller, LastPlan>();
  /**
   * Calls that try a canary have a different plan. Keep it in a map of its own, so that the two don't evict each other.
   */
  const lastCanaryPlans = new WeakMap<Caller, LastPlan>();

  /**
   * Replaces candidates whose provider has a pool by the members of the pool. If there aren't any, returns the same
   * array.
   */
  const expandPools = (candidates: readonly Candidate[], affinity: () => Affinity): readonly Candidate[] => {
    const { pools } = catalog;
    if (pools.size === 0 || !candidates.some(({ provider }) => pools.has(provider))) return candidates;
    const wanted = affinity();
    return candidates.flatMap((candidate) => {
      const pool = pools.get(candidate.provider);
      return pool ? orderMembers(pool, wanted, loads).map((member) => ({ ...candidate, member })) : candidate;
    });
  };

  /** If this call asks for the same as the key's previous one, reuses its plan. */
  const planAsLast = (request: PlanRequest): Plan => {
    const canaries = chooseCanaries(catalog, request);
    const plans = canaries?.length ? lastCanaryPlans : lastPlans;
    const last = plans.get(request.caller);
    if (last && isSameRequest(last.request, request) && last.canaries?.join() === canaries?.join()) return last.plan;
    const view = { ...viewOf(request), ...(canaries && { canaries }) };
    const plan = planAnyPrompt(view, request);
    const { prompt: _notKept, conversation: _ofCall, ...kept } = request;
    plans.set(request.caller, { canaries, request: kept, plan });
    return plan;
  };

  return {
    plan(request) {
      const { prompt, route } = request;
      const plan = planAsLast(request);
      const { candidates } = plan;
      if (!prompt || candidates.length < 2) return plan;
      const { fitting, tooSmall } = splitByWindow(candidates, route, prompt);
      if (tooSmall.length === 0) return plan;
      const entryOf = ({ id }: Candidate): readonly PlanEntry[] => plan.entries.filter(({ model }) => model === id);
      const skipped = tooSmall.flatMap(entryOf).map((entry) => ({ ...withoutCanary(entry), skipped: 'context_too_small' }));
      return { candidates: fitting, entries: [...fitting.flatMap(entryOf), ...skipped, ...plan.entries.slice(candidates.length)] };
    },
    order(plan, { caller, project, affinity }) {
      const withMembers = expandPools(plan.candidates, affinity);
      if (withMembers.length === 1) return withMembers === plan.candidates ? plan : { ...plan, candidates: withMembers };
      const candidates = orderByPriority(withMembers, createPriority(project, caller.projectId, breakers));
      if (candidates.every((candidate, position) => candidate === plan.candidates[position])) return plan;
      // All members of a pool have the same model id, so use the position of the first of them.
      const positions = new Map(candidates.map(({ id }, position) => [id, position] as const).toReversed());
      const positionOf = ({ model, skipped }: PlanEntry): number => (skipped === null ? (positions.get(model) ?? 0) : positions.size);
      const entries = plan.entries.toSorted((left, right) => positionOf(left) - positionOf(right));
      return { candidates, entries: entries.map((entry, position) => (position > 0 ? withoutCanary(entry) : entry)) };
    },
    explain: (request) => selectFor(viewOf(request), request).skipped,
  };
}

/** Plans a call without considering how long its prompt is. Throws `no_route`. */
function planAnyPrompt(view: SelectRequest, request: PlanRequest): Plan {
  if (!hasProvider(request.project, view.catalog.providers)) {
    throw noRoute('no providers configured', `the project has no provider for ${quoteName(request.requestedModel)}`);
  }
  const selection = selectFor(view, request);
  const { open, skipped, isFilled, canary } = selection;
  if (open.length === 0) throw noRouteFor(view, request, selection);
  const available = open.flatMap((id) => toCandidate(view.catalog, id) ?? []);
  const candidates = orderByPriority(available, ({ id }) => (isRetired(request.project, id) ? 2 : 0));
  const entries = candidates.map(({ id }, position): PlanEntry => {
    const entry = { model: id, skipped: null, ...(isFilled && { filled: true as const }) };
    if (!canary || position > 0) return entry;
    if (!canary.isTried) return { ...entry, control: canary.tier };
    return id === open[0] ? { ...entry, canary: canary.tier } : entry;
  });
  return { candidates, entries: [...entries, ...skipped] };
}

/**
 * Removes the mark from a canary that isn't the first candidate, because such a call doesn't count in the comparison.
 */
function withoutCanary({ canary: _notFirst, ...entry }: PlanEntry): PlanEntry {
  return entry;
}

/** Returns the tiers whose canary this call would try, or undefined if there are none. */
function chooseCanaries(
  { canaries }: Catalog,
  { requestedModel, autoTier, route, conversation }: PlanRequest,
): readonly string[] | undefined {
  if (canaries.size === 0) return undefined;
  const tiers = requestedModel === 'auto' ? [autoTier ?? '', defaultTier(route)] : [requestedModel];
  const position = tiers.some((tier) => canaries.has(tier)) ? (conversation?.() ?? null) : null;
  return position === null ? undefined : tiers.filter((tier) => position < (canaries.get(tier)?.share ?? 0));
}

/** The last plan of a key, with everything that it depends on. */
interface LastPlan {
  readonly canaries: readonly string[] | undefined;
  readonly request: Omit<PlanRequest, 'prompt' | 'conversation'>;
  readonly plan: Plan;
}

function isSameRequest(last: LastPlan['request'], request: PlanRequest): boolean {
  return (
    last.requestedModel === request.requestedModel &&
    last.route === request.route &&
    last.source === request.source &&
    last.project === request.project &&
    (last.autoTier ?? null) === (request.autoTier ?? null) &&
    (last.requiresPrice ?? false) === (request.requiresPrice ?? false)
  );
}

function noRouteFor(view: SelectRequest, { requestedModel }: PlanRequest, { skipped, isDeniedByKey, isUnknown }: Selection): Error {
  if (isDeniedByKey) {
    return noRoute(
      `model not permitted for this key: ${requestedModel.slice(0, 256)}`,
      explainNoRoute(requestedModel, 'not_permitted_for_key'),
      refusalOf('not_permitted_for_key'),
    );
  }
  const untagged = skipped.flatMap(({ model, lacks }) => (lacks ? { provider: splitModelId(model)?.provider ?? '', lacks } : []));
  if (untagged.length > 0) return lacksTags(requestedModel, untagged);
  const reason = isUnknown ? 'unknown' : (skipped[0]?.skipped ?? null);
  const nearest = reason === 'unknown' || reason === 'unknown_provider' ? findNearest(view, requestedModel) : null;
  const suggestion = nearest === null ? '' : `; the nearest is ${quoteName(nearest)}`;
  return noRoute(undefined, explainNoRoute(requestedModel, reason) + suggestion, refusalOf(reason));
}

/** Finds the tier or model with the most similar name that the route would serve to this key. */
function findNearest(view: SelectRequest, asked: string): string | null {
  const names = [...tierNames(view), ...view.catalog.models.keys()];
  return findNearestName(asked, names, (name) => selectModels(view, name, false).open.length > 0);
}

/** Returns the tier for `auto` if no classifier is used. */
export function defaultTier(route: TextRoute): string {
  return route === 'embeddings' ? 'embed' : 'standard';
}

function selectFor(view: SelectRequest, { requestedModel, autoTier, route }: PlanRequest): Selection {
  if (requestedModel !== 'auto') return selectModels(view, requestedModel, false);
  const byDefault = defaultTier(route);
  if (autoTier !== undefined && autoTier !== null && autoTier !== byDefault) {
    const chosen = selectModels(view, autoTier, true);
    // Only use the chosen tier if it has a permitted model of its own. Models from catalog fill don't count.
    if (chosen.open.length > 0 && !chosen.isFilled) return chosen;
  }
  return selectModels(view, byDefault, true);
}

/**
 * Returns a function that rates candidates: 0 if they're healthy, 1 if the breaker is open or the provider is cooling
 * down, and 2 if they're retired. Within each group, candidates keep the order of the chain. Only the first healthy
 * candidate gets the request, so it's the only one that takes a probe slot.
 */
function createPriority(project: ProjectRouting, projectId: string, breakers: Breakers): (candidate: Candidate) => number {
  let hasFirst = false;
  return (candidate) => {
    if (isRetired(project, candidate.id)) return 2;
    const key = connectionKey(candidate);
    if (hasFirst) return breakers.isHealthy(projectId, key) ? 0 : 1;
    hasFirst = breakers.tryAcquire(projectId, key);
    return hasFirst ? 0 : 1;
  };
}

/**
 * Sorts candidates by priority. Since `priorityOf` may take a probe slot, we call it exactly once per candidate, in the
 * order of the chain.
 */
function orderByPriority(candidates: readonly Candidate[], priorityOf: (candidate: Candidate) => number): readonly Candidate[] {
  if (candidates.length === 1) return candidates;
  const priorities = new Map(candidates.map((candidate) => [candidate, priorityOf(candidate)]));
  return [...candidates].sort((a, b) => (priorities.get(a) ?? 0) - (priorities.get(b) ?? 0));
}

/** Null if the provider isn't in the catalog, which can't happen for selected models. */
function toCandidate(catalog: Catalog, id: string): Candidate | null {
  const parts = splitModelId(id);
  const provider = parts ? catalog.providers.get(parts.provider) : undefined;
  if (!parts || !provider) return null;
  const row = catalog.models.get(id);
  const { price = null, maxOutputTokens = null, maxInputTokens = null, contextWindow = null, imageTokens = null, traits = {} } = row ?? {};
  const { firstContentTimeoutMs = null } = row ?? {};
  const responses = findResponsesSupport(provider, row);
  const limits = { maxOutputTokens, maxInputTokens, contextWindow, imageTokens, firstContentTimeoutMs };
  return { id, ...parts, dialect: provider.dialect, responses, price, ...limits, traits };
}
