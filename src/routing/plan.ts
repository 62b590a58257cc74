/** Creates the plan of a call, i.e. its candidates in order and the models that were skipped. */
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
  /** The calling application, whose tiers take precedence over the project's. */
  readonly source: string;
  readonly route: TextRoute;
  readonly requestedModel: string;
  /**
   * The tier that the classifier has chosen for `auto` (classify.ts). We use the route's default tier if this isn't
   * set, or if the key may not use any model of the tier.
   */
  readonly autoTier?: string | null;
  /** True if there's a cost ceiling. Models without a price are then skipped as `price_unknown`. */
  readonly requiresPrice?: boolean;
  /**
   * Returns a number from 0 to 1 that is the same for all calls of a conversation, and decides whether they try a
   * canary. If there's no number, the call doesn't try any canary.
   */
  readonly conversation?: () => number | null;
  /** If this is set, models whose window is too small for the prompt are skipped as `context_too_small`. */
  readonly prompt?: PromptSize;
}

/** A planner belongs to one catalog, so a reload of the configuration creates a new one. */
export interface PlannerDeps {
  readonly catalog: Catalog;
  readonly breakers: Breakers;
  /** The default for projects that don't set catalog fill. */
  readonly catalogFill: boolean;
  readonly loads: MemberLoads;
}

export interface OrderRequest extends Pick<PlanRequest, 'caller' | 'project'> {
  /** Determines which pool members the call prefers. Only called if the plan contains a provider with a pool. */
  readonly affinity: () => Affinity;
}

export interface Planner {
  /**
   * Creates the plan as if all vendors were healthy. Throws `no_route` if there's no candidate
   * (docs/api/reference.md#no-route).
   */
  plan(request: PlanRequest): Plan;
  /**
   * Reorders a plan by the current health of the vendors, and expands pools into one candidate per member. This may
   * take a probe slot of a circuit breaker, so only call it if you're going to send the call.
   */
  order(plan: Plan, request: OrderRequest): Plan;
  /** After `plan` has thrown `no_route`, returns which models were skipped and why. */
  explain(request: PlanRequest): readonly PlanEntry[];
}

export function createPlanner({ catalog, breakers, catalogFill, loads }: PlannerDeps): Planner {
  const viewOf = (request: PlanRequest): SelectRequest => ({ ...request, catalog, catalogFill });
  const lastPlans = new WeakMap<Caller, LastPlan>();
  /**
   * Calls that try a canary have different plans. They're cached separately, so that the two don't evict each other.
   */
  const lastCanaryPlans = new WeakMap<Caller, LastPlan>();

  /**
   * Expands each provider that has a pool into one candidate per member. Returns the same array if no provider has one.
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
      // All members of a pool have the same model id, so sort a model by its first candidate.
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
  if (!hasProvider(request.project, view.catalog.served)) {
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
 * Removes the canary mark from an entry if the canary isn't the first candidate. We ignore such a call when we compare
 * the canary with its tier.
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
  const suggestion = nearest === null ? '' : `; the closest match is ${quoteName(nearest)}`;
  return noRoute(undefined, explainNoRoute(requestedModel, reason) + suggestion, refusalOf(reason));
}

/** Returns the most similar name of a tier or model that this key could use on the route. */
function findNearest(view: SelectRequest, asked: string): string | null {
  const names = [...tierNames(view), ...view.catalog.models.keys()];
  return findNearestName(asked, names, (name) => selectModels(view, name, false).open.length > 0);
}

/** Returns the tier that `auto` uses without a classifier. */
export function defaultTier(route: TextRoute): string {
  return route === 'embeddings' ? 'embed' : 'standard';
}

function selectFor(view: SelectRequest, { requestedModel, autoTier, route }: PlanRequest): Selection {
  if (requestedModel !== 'auto') return selectModels(view, requestedModel, false);
  const byDefault = defaultTier(route);
  if (autoTier !== undefined && autoTier !== null && autoTier !== byDefault) {
    const chosen = selectModels(view, autoTier, true);
    // The chosen tier has to have a permitted model of its own. Substitutes from catalog fill don't count.
    if (chosen.open.length > 0 && !chosen.isFilled) return chosen;
  }
  return selectModels(view, byDefault, true);
}

/**
 * Returns a function that computes a candidate's priority: 0 if it's healthy, 1 if its breaker is open or its provider
 * is cooling down, and 2 if it's retired. Only the first healthy candidate gets the request, so only that one takes a
 * probe slot.
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
 * Sorts the candidates by priority. Those with the same priority stay in the order of the chain. `priorityOf` may take
 * a probe slot, so we only call it once per candidate, in the order of the chain.
 */
function orderByPriority(candidates: readonly Candidate[], priorityOf: (candidate: Candidate) => number): readonly Candidate[] {
  if (candidates.length === 1) return candidates;
  const priorities = new Map(candidates.map((candidate) => [candidate, priorityOf(candidate)]));
  return [...candidates].sort((a, b) => (priorities.get(a) ?? 0) - (priorities.get(b) ?? 0));
}

/** Returns null if the provider isn't in the catalog, which can't happen for selected models. */
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
