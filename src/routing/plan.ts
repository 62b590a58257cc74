/**
 * Creates the plan of a call. It consists of the candidates in order, and an entry for each model of the chain that we
 * skip.
 */
import type { Caller, PlanEntry, TextRoute } from '../core/call.ts';
import { type Candidate, connectionKey } from '../core/candidate.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { Catalog } from './catalog.ts';
import { splitModelId } from './catalog.ts';
import { type PromptSize, splitByWindow } from './context-windows.ts';
import { findNearestName } from './nearest-name.ts';
import { explainNoRoute, lacksTags, noRoute, quoteName, refusalOf } from './no-route.ts';
import { type Affinity, type MemberLoads, orderMembers } from './pools.ts';
import type { ProjectRouting } from './rules.ts';
import { findResponsesSupport, hasProvider, isRetired, tierNames } from './rules.ts';
import type { Selection, SelectRequest } from './select.ts';
import { selectModels } from './select.ts';

export interface Plan {
  readonly candidates: readonly Candidate[];
  readonly entries: readonly PlanEntry[];
}

export interface PlanRequest {
  readonly caller: Caller;
  readonly project: ProjectRouting;
  /** The name of the calling application, which may override tiers. */
  readonly source: string;
  readonly route: TextRoute;
  readonly requestedModel: string;
  /**
   * The tier that a classifier chose for `auto` (classify.ts). If this is absent, or if the tier has no permitted
   * model, `auto` stands for the route's default tier.
   */
  readonly autoTier?: string | null;
  /** True if a cost ceiling applies. Models without a price are then skipped as `price_unknown`. */
  readonly requiresPrice?: boolean;
  /**
   * Returns a number from 0 to 1 that's the same for all calls of a conversation. It decides which calls try a canary.
   * If this is absent or returns null, the call can't try one.
   */
  readonly conversation?: () => number | null;
  /** If this is set, models with a smaller window are skipped as `context_too_small`. */
  readonly prompt?: PromptSize;
}

export interface PlannerDeps {
  readonly catalog: () => Catalog;
  readonly breakers: Breakers;
  /** Used for projects without a setting of their own. */
  readonly catalogFill: () => boolean;
  readonly loads: MemberLoads;
}

/** What the order of a plan depends on. */
export interface OrderRequest extends Pick<PlanRequest, 'caller' | 'project'> {
  /** Only called if a provider of the plan has a pool. */
  readonly affinity: () => Affinity;
}

export interface Planner {
  /**
   * Creates the plan that applies if all vendors are healthy. Throws `no_route` (docs/api/reference.md#no-route) if
   * there's no candidate.
   */
  plan(request: PlanRequest): Plan;
  /**
   * Orders the plan by the current health of the vendors. If a provider has a pool, its candidates are repeated for each
   * member. Only call this if you'll send the call, because it may take the probe slot of a breaker.
   */
  order(plan: Plan, request: OrderRequest): Plan;
  /** Returns the skipped models of a request for which `plan` throws `no_route`. */
  explain(request: PlanRequest): readonly PlanEntry[];
}

export function createPlanner({ catalog, breakers, catalogFill, loads }: PlannerDeps): Planner {
  const viewOf = (request: PlanRequest): SelectRequest => ({ ...request, catalog: catalog(), catalogFill: catalogFill() });
  const lastPlans = new WeakMap<Caller, LastPlan>();
  /** The plans of calls that try a canary. They are kept separately, so that they don't replace those of the others. */
  const lastCanaryPlans = new WeakMap<Caller, LastPlan>();

  /** Repeats each candidate of a pool for its members. Returns the same array if no provider has a pool. */
  const expandPools = (candidates: readonly Candidate[], affinity: () => Affinity): readonly Candidate[] => {
    const { pools } = catalog();
    if (pools.size === 0 || !candidates.some(({ provider }) => pools.has(provider))) return candidates;
    const wanted = affinity();
    return candidates.flatMap((candidate) => {
      const pool = pools.get(candidate.provider);
      return pool ? orderMembers(pool, wanted, loads).map((member) => ({ ...candidate, member })) : candidate;
    });
  };

  /** Reuses the plan of the key's last call if this call asks for the same thing. */
  const planAsLast = (request: PlanRequest): Plan => {
    const canaries = chooseCanaries(catalog(), request);
    const plans = canaries?.length ? lastCanaryPlans : lastPlans;
    const last = plans.get(request.caller);
    if (
      last?.catalog === catalog() &&
      last.catalogFill === catalogFill() &&
      isSameRequest(last.request, request) &&
      last.canaries?.join() === canaries?.join()
    )
      return last.plan;
    const view = { ...viewOf(request), ...(canaries && { canaries }) };
    const plan = planAnyPrompt(view, request);
    const { prompt: _notKept, conversation: _ofCall, ...kept } = request;
    plans.set(request.caller, { catalog: view.catalog, catalogFill: view.catalogFill, canaries, request: kept, plan });
    return plan;
  };

  return {
    plan(request) {
      const { prompt, route } = request;
      const plan = planAsLast(request);
      if (!prompt) return plan;
      const { candidates } = plan;
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
      // A model has the position of its first member.
      const positions = new Map(candidates.map(({ id }, position) => [id, position] as const).toReversed());
      const positionOf = ({ model, skipped }: PlanEntry): number => (skipped === null ? (positions.get(model) ?? 0) : positions.size);
      const entries = plan.entries.toSorted((left, right) => positionOf(left) - positionOf(right));
      return { candidates, entries: entries.map((entry, position) => (position > 0 ? withoutCanary(entry) : entry)) };
    },
    explain: (request) => selectFor(viewOf(request), request).skipped,
  };
}

/** Creates the plan without regard to the size of the prompt. Throws `no_route`. */
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

/** Returns the entry of a model that the call doesn't try first, which doesn't count for the comparison of canaries. */
function withoutCanary({ canary: _notFirst, ...entry }: PlanEntry): PlanEntry {
  return entry;
}

/** Returns the tiers whose canaries the call tries, if it uses these tiers. Undefined if it can't try any. */
function chooseCanaries(
  { canaries }: Catalog,
  { requestedModel, autoTier, route, conversation }: PlanRequest,
): readonly string[] | undefined {
  if (canaries.size === 0) return undefined;
  const tiers = requestedModel === 'auto' ? [autoTier ?? '', defaultTier(route)] : [requestedModel];
  const position = tiers.some((tier) => canaries.has(tier)) ? (conversation?.() ?? null) : null;
  return position === null ? undefined : tiers.filter((tier) => position < (canaries.get(tier)?.share ?? 0));
}

/** Everything that the plan of a key's last call depends on, and the plan itself. */
interface LastPlan extends Pick<SelectRequest, 'catalog' | 'catalogFill'> {
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

/** Finds the nearest name among the tiers and models that the route would serve to this key. */
function findNearest(view: SelectRequest, asked: string): string | null {
  const names = [...tierNames(view), ...view.catalog.models.keys()];
  return findNearestName(asked, names, (name) => selectModels(view, name, false).open.length > 0);
}

/** Returns the tier for `auto` without a classifier. */
export function defaultTier(route: TextRoute): string {
  return route === 'embeddings' ? 'embed' : 'standard';
}

function selectFor(view: SelectRequest, { requestedModel, autoTier, route }: PlanRequest): Selection {
  if (requestedModel !== 'auto') return selectModels(view, requestedModel, false);
  const byDefault = defaultTier(route);
  if (autoTier !== undefined && autoTier !== null && autoTier !== byDefault) {
    const chosen = selectModels(view, autoTier, true);
    // We don't use a tier without a permitted model, or one that only catalog fill would serve.
    if (chosen.open.length > 0 && !chosen.isFilled) return chosen;
  }
  return selectModels(view, byDefault, true);
}

/**
 * Returns a function that rates a candidate as 0 if it's healthy, 1 if its provider's breaker is open or cooling down,
 * and 2 if it's retired. Candidates of the same priority keep the order of the chain. Only the first healthy candidate
 * takes a probe slot, because we'll send it a request.
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

/** Calls `priorityOf` exactly once per candidate, in the order of the chain, because that may take a probe slot. */
function orderByPriority(candidates: readonly Candidate[], priorityOf: (candidate: Candidate) => number): readonly Candidate[] {
  if (candidates.length === 1) return candidates;
  const priorities = new Map(candidates.map((candidate) => [candidate, priorityOf(candidate)]));
  return [...candidates].sort((a, b) => (priorities.get(a) ?? 0) - (priorities.get(b) ?? 0));
}

/** Returns null only if the id's provider isn't in the catalog, which can't happen for a selected id. */
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
