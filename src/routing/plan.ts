/** Makes the plan of a call: the candidates, in order, and a line for each model of the chain that is none. */
import type { Caller, Candidate, Dialect, PlanLine } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { Catalog } from './catalog.ts';
import { splitModelId } from './catalog.ts';
import type { ProjectRouting } from './rules.ts';
import { isPermitted, isRetired, reasonToSkip, resolveModel } from './rules.ts';

export interface Plan {
  readonly candidates: readonly Candidate[];
  readonly lines: readonly PlanLine[];
}

export interface PlanRequest {
  readonly caller: Caller;
  readonly project: ProjectRouting;
  readonly dialect: Dialect;
  /** `auto` uses the tier `standard`. */
  readonly modelAsked: string;
}

export interface Planner {
  /** Throws `no_route` with the specification's sentences (7.5) when no candidate is left. */
  plan(request: PlanRequest): Plan;
}

export function createPlanner({ catalog, breakers }: { catalog: () => Catalog; breakers: Breakers }): Planner {
  return {
    plan({ caller, project, dialect, modelAsked }) {
      const current = catalog();
      if (current.providers.size === 0) throw gatewayError('no_route', { message: 'no providers configured' });
      const asked = modelAsked === 'auto' ? 'standard' : modelAsked;
      const chain = resolveModel(current, project, asked);
      if (chain.length === 0) throw gatewayError('no_route');

      const lines: PlanLine[] = [];
      const open: string[] = [];
      let refusedByKey = 0;
      for (const id of new Set(chain)) {
        const skipped =
          reasonToSkip(current, project, dialect, id) ??
          (isPermitted(caller.models, [modelAsked, asked], id) ? null : 'not_permitted_for_key');
        if (skipped === null) open.push(id);
        else lines.push({ model: id, skipped });
        if (skipped === 'not_permitted_for_key') refusedByKey += 1;
      }
      if (open.length === 0) {
        throw gatewayError('no_route', refusedByKey > 0 ? { message: `model not permitted for this key: ${modelAsked}` } : {});
      }
      const candidates = orderOf(open, (id) => rankOf(id, project, caller.projectId, breakers)).map((id) =>
        candidateOf(current, dialect, id),
      );
      return { candidates, lines: [...candidates.map(({ id }) => ({ model: id, skipped: null })), ...lines] };
    },
  };
}

/** 0: in its place; 1: its provider's breaker is open or it cools down; 2: retired. Within a rank the chain's order stays. */
function rankOf(id: string, project: ProjectRouting, projectId: string, breakers: Breakers): number {
  if (isRetired(project, id)) return 2;
  return breakers.admits(projectId, splitModelId(id)?.provider ?? '') ? 0 : 1;
}

function orderOf(ids: readonly string[], rank: (id: string) => number): string[] {
  if (ids.length === 1) return [...ids];
  const ranks = new Map(ids.map((id) => [id, rank(id)]));
  return [...ids].sort((a, b) => (ranks.get(a) ?? 0) - (ranks.get(b) ?? 0));
}

function candidateOf(catalog: Catalog, dialect: Dialect, id: string): Candidate {
  const parts = splitModelId(id) ?? { provider: '', model: id };
  const row = catalog.models.get(id);
  return {
    id,
    provider: parts.provider,
    model: parts.model,
    dialect,
    price: row?.price ?? null,
    maxOutputTokens: row?.maxOutputTokens ?? null,
  };
}
