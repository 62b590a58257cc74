/** Creates the plan of a call, which consists of the candidates in order, and an entry for each skipped model. */
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
  /** The application that makes the call. Its own tiers take precedence over the project's tiers. */
  readonly source: string;
  readonly route: TextRoute;
  readonly requestedModel: string;
  /**
   * The tier that the classifier chose for `auto` (classify.ts). If it's missing or has no permitted model, we use the
   * route's default tier.
   */
  readonly autoTier?: string | null;
  /** True if a cost ceiling applies. Models without a price are then skipped with the reason `price_unknown`. */
  readonly requiresPrice?: boolean;
  /**
   * Returns a number from 0 to 1 that's the same for all calls of a conversation. It decides whether they try a canary.
   * Null or missing means that they don't.
   */
  readonly conversation?: () => number | null;
  /** If this is set, we skip models with a smaller window, with the reason `context_too_small`. */
  readonly prompt?: PromptSize;
}

/** A planner is for one catalog. After a reload, there's another planner. */
export interface PlannerDeps {
  readonly catalog: Catalog;
  readonly breakers: Breakers;
  /** Turns on catalog fill for projects that don't have their own setting. */
  readonly catalogFill: boolean;
  readonly loads: MemberLoads;
}

/** Everything that's needed to order the candidates of an existing plan. */
export interface OrderRequest extends Pick<PlanRequest, 'caller' | 'project'> {
  /** Decides which members of a pool the call prefers. We only need this if a provider in the plan has a pool. */
  readonly affinity: () => Affinity;
}

export interface Planner {
  /**
   * Creates the plan, assuming that all vendors are healthy. Throws `no_route` (docs/api/reference.md#no-route) if
   * there's no candidate.
   */
  plan(request: PlanRequest): Plan;
  /**
   * Orders the plan by the current health of the vendors. If a provider has a pool, there will be a candidate for each
   * of its members. Only call this if you'll send the call, because it can take the probe slot of a breaker.
   */
  order(plan: Plan, request: OrderRequest): Plan;
  /** After `plan` threw `no_route`, returns which models were skipped and why. */
  explain(request: PlanRequest): readonly PlanEntry[];
}

export function createPlanner({ catalog, breakers, catalogFill, loads }: PlannerDeps): Planner {
  const viewOf = (request: PlanRequest): SelectRequest => ({ ...request, catalog, catalogFill });
  const lastPlans = new WeakMap<Caller, LastPlan>();
  /** Plans with a canary have their own map, so that they don't evict the others. */
  const lastCanaryPlans = new WeakMap<Caller, LastPlan>();

  /** Replaces each candidate of a pool by its members. Returns the same array if no provider has a pool. */
  const expandPools = (candidates: readonly Candidate[], affinity: () => Affinity): readonly Candidate[] => {
    const { pools } = catalog;
    if (pools.size === 0 || !candidates.some(({ provider }) => pools.has(provider))) return candidates;
    const wanted = affinity();
    return candidates.flatMap((candidate) => {
      const pool = pools.get(candidate.provider);
      return pool ? orderMembers(pool, wanted, loads).map((member) => ({ ...candidate, member })) : candidate;
    });
  };

  /** Reuses the plan of the key's previous call if this call asks for the same. */
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
      // Members of a pool have the same model id, so use the position of the first one.
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

/** Removes the canary mark from calls that don't try the canary first, so that they don't count in the comparison. */
function withoutCanary({ canary: _notFirst, ...entry }: PlanEntry): PlanEntry {
  return entry;
}

/** Returns the tiers that would try their canary for this call. Undefined if none would. */
function chooseCanaries(
  { canaries }: Catalog,
  { requestedModel, autoTier, route, conversation }: PlanRequest,
): readonly string[] | undefined {
  if (canaries.size === 0) return undefined;
  const tiers = requestedModel === 'auto' ? [autoTier ?? '', defaultTier(route)] : [requestedModel];
  const position = tiers.some((tier) => canaries.has(tier)) ? (conversation?.() ?? null) : null;
  return position === null ? undefined : tiers.filter((tier) => position < (canaries.get(tier)?.share ?? 0));
}

/** Remembers a key's last plan, together with all inputs that the plan depends on. */
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

/** Finds the most similar name among the tiers and models that the route would serve to this key. */
function findNearest(view: SelectRequest, asked: string): string | null {
  const names = [...tierNames(view), ...view.catalog.models.keys()];
  return findNearestName(asked, names, (name) => selectModels(view, name, false).open.length > 0);
}

/** Returns the tier that `auto` stands for if there's no classifier. */
export function defaultTier(route: TextRoute): string {
  return route === 'embeddings' ? 'embed' : 'standard';
}

function selectFor(view: SelectRequest, { requestedModel, autoTier, route }: PlanRequest): Selection {
  if (requestedModel !== 'auto') return selectModels(view, requestedModel, false);
  const byDefault = defaultTier(route);
  if (autoTier !== undefined && autoTier !== null && autoTier !== byDefault) {
    const chosen = selectModels(view, autoTier, true);
    // Don't use a tier that has no permitted model of its own, i.e. only ones from catalog fill or none at all.
    if (chosen.open.length > 0 && !chosen.isFilled) return chosen;
  }
  return selectModels(view, byDefault, true);
}

/**
 * Returns a function that returns 0 for a healthy candidate, 1 if the breaker is open or the provider is cooling down,
 * and 2 if the candidate is retired. Candidates with the same priority keep their order in the chain. Only the first
 * healthy candidate takes a probe slot, because only this one will get the request.
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
 * Sorts candidates by priority. It calls `priorityOf` exactly once for each of them and in the order of the chain,
 * because `priorityOf` can take a probe slot.
 */
function orderByPriority(candidates: readonly Candidate[], priorityOf: (candidate: Candidate) => number): readonly Candidate[] {
  if (candidates.length === 1) return candidates;
  const priorities = new Map(candidates.map((candidate) => [candidate, priorityOf(candidate)]));
  return [...candidates].sort((a, b) => (priorities.get(a) ?? 0) - (priorities.get(b) ?? 0));
}

/** Null if the catalog doesn't have the provider, which doesn't happen for selected models. */
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
