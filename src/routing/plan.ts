/** Makes the plan of a call: the candidates, in order, and a line for each model of the chain that is none. */
import type { Caller, Candidate, PlanEntry, TextRoute } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { Catalog } from './catalog.ts';
import { splitModelId } from './catalog.ts';
import type { ProjectRouting } from './rules.ts';
import { isRetired } from './rules.ts';
import type { RoutingFlags, Selection, SelectRequest } from './select.ts';
import { selectModels } from './select.ts';

export interface Plan {
  readonly candidates: readonly Candidate[];
  readonly entries: readonly PlanEntry[];
}

export interface PlanRequest {
  readonly caller: Caller;
  readonly project: ProjectRouting;
  /** The application that calls; it may have tiers of its own. */
  readonly source: string;
  readonly route: TextRoute;
  readonly modelAsked: string;
  /** The tier a classifier chose for `auto` (classify.ts). Where it has no open model, and without it, `auto` is the route's usual tier. */
  readonly autoTier?: string | null;
  /** Money is limited: models without a price are left out, as `price_unknown`. */
  readonly requiresPrice?: boolean;
}

export interface PlannerDeps {
  readonly catalog: () => Catalog;
  readonly breakers: Breakers;
  readonly flags: () => RoutingFlags;
}

export interface Planner {
  /**
   * What the call asks for, in the order that it has while all vendors are well. Throws `no_route` with the specification's sentences (7.5)
   * when no candidate is left.
   */
  plan(request: PlanRequest): Plan;
  /** The plan as the vendors are now, for a call that is going to be made: it may be given the probe of a breaker. */
  order(plan: Plan, request: Pick<PlanRequest, 'caller' | 'project'>): Plan;
}

export function createPlanner({ catalog, breakers, flags }: PlannerDeps): Planner {
  return {
    plan(request) {
      const view: SelectRequest = { ...request, catalog: catalog(), flags: flags() };
      if (view.catalog.providers.size === 0) throw gatewayError('no_route', { message: 'no providers configured' });
      const { open, skipped: left, isFilled, isDeniedByKey: isRefusedByKey } = selectFor(view, request);
      if (open.length === 0) {
        throw gatewayError(
          'no_route',
          isRefusedByKey ? { message: `model not permitted for this key: ${request.modelAsked.slice(0, 256)}` } : {},
        );
      }
      const found = open.flatMap((id) => toCandidate(view.catalog, id) ?? []);
      const candidates = orderByPriority(found, ({ id }) => (isRetired(request.project, id) ? 2 : 0));
      const entries = candidates.map(({ id }) => ({ model: id, skipped: null, ...(isFilled ? { filled: true as const } : {}) }));
      return { candidates, entries: [...entries, ...left] };
    },
    order(plan, { caller, project }) {
      const candidates = orderByPriority(plan.candidates, createPriority(project, caller.projectId, breakers));
      if (candidates.every((candidate, position) => candidate === plan.candidates[position])) return plan;
      const places = new Map(candidates.map(({ id }, position) => [id, position]));
      const placeOf = ({ model, skipped }: PlanEntry): number => (skipped === null ? (places.get(model) ?? 0) : places.size);
      return { candidates, entries: plan.entries.toSorted((left, right) => placeOf(left) - placeOf(right)) };
    },
  };
}

/** The tier that `auto` stands for where no classifier has its say (specification 1, shapes 21). */
export function defaultTier(route: TextRoute): string {
  return route === 'embeddings' ? 'embed' : 'standard';
}

function selectFor(view: SelectRequest, { modelAsked, autoTier, route }: PlanRequest): Selection {
  if (modelAsked !== 'auto') return selectModels(view, modelAsked, false);
  const usual = defaultTier(route);
  if (autoTier !== undefined && autoTier !== null && autoTier !== usual) {
    const chosen = selectModels(view, autoTier, true);
    // A tier that is not served or that the key refuses is no good choice, and one that would be filled is no choice at all.
    if (chosen.open.length > 0 && !chosen.isFilled) return chosen;
  }
  return selectModels(view, usual, true);
}

/**
 * 0: in its place; 1: its provider's breaker is open or it cools down; 2: retired. Within a rank the chain's order stays. Only the first in its
 * place is given a probe, since it is going to be asked.
 */
function createPriority(project: ProjectRouting, projectId: string, breakers: Breakers): (candidate: Candidate) => number {
  let hasFirst = false;
  return ({ id, provider }) => {
    if (isRetired(project, id)) return 2;
    if (hasFirst) return breakers.isHealthy(projectId, provider) ? 0 : 1;
    hasFirst = breakers.tryAcquire(projectId, provider);
    return hasFirst ? 0 : 1;
  };
}

/** Each is ranked once, in the order of the chain: who asks a breaker may be given its probe. */
function orderByPriority(candidates: readonly Candidate[], rank: (candidate: Candidate) => number): readonly Candidate[] {
  if (candidates.length === 1) return candidates;
  const ranks = new Map(candidates.map((candidate) => [candidate, rank(candidate)]));
  return [...candidates].sort((a, b) => (ranks.get(a) ?? 0) - (ranks.get(b) ?? 0));
}

/** Never null for an id that was selected: its provider is in the catalog. */
function toCandidate(catalog: Catalog, id: string): Candidate | null {
  const parts = splitModelId(id);
  const provider = parts ? catalog.providers.get(parts.provider) : undefined;
  if (!parts || !provider) return null;
  const { price = null, maxOutputTokens = null, traits = {} } = catalog.models.get(id) ?? {};
  return { id, ...parts, dialect: provider.dialect, price, maxOutputTokens, traits };
}
