/** Which models of the name asked for are open to a call, and why each other is not. */
import type { Caller, PlanEntry, TextRoute } from '../core/call.ts';
import { findFill } from './fill.ts';
import type { RoutingView } from './rules.ts';
import { findSkipReason, isPermitted, resolveModel } from './rules.ts';

/** What the deployment has switched on. */
export interface RoutingFlags {
  /** Chat callers may be answered by messages vendors and the reverse. */
  readonly translates: boolean;
  /** For projects that do not say themselves. */
  readonly catalogFill: boolean;
}

export interface SelectRequest extends RoutingView {
  readonly caller: Caller;
  readonly route: TextRoute;
  readonly flags: RoutingFlags;
  /** Money is limited: a model whose cost cannot be told is none for this call. */
  readonly requiresPrice?: boolean;
}

export interface Selection {
  /** Models that can be asked, in the chain's order. */
  readonly open: readonly string[];
  /** They stand in by catalog fill. */
  readonly isFilled: boolean;
  readonly skipped: readonly PlanEntry[];
  /** A provider of the project serves a model, but the key refuses it. */
  readonly isDeniedByKey: boolean;
}

/** A tier may be filled from a catalog of thousands; a call that has tried so many in vain is better told so. */
const maxFill = 20;

/** Models that `asked` stands for. For `auto` it is the tier that `auto` stands for. */
export function selectModels(request: SelectRequest, asked: string, isAuto: boolean): Selection {
  const { caller, route, flags, catalog, project } = request;
  const found = resolveModel(request, asked);
  // With `auto` there is a chain to be filled, even where nobody wrote down the tier.
  const resolution = isAuto && found.kind === 'nothing' ? ({ kind: 'tier', ids: [] } as const) : found;
  const names = isAuto ? ['auto', asked] : [asked];

  const open: string[] = [];
  const left: PlanEntry[] = [];
  let isDeniedByKey = false;
  let isServed = false;
  const isUnpriced = (id: string): boolean => request.requiresPrice === true && !catalog.models.get(id)?.price;
  for (const id of new Set(resolution.ids)) {
    const unserved = findSkipReason(request, route, flags.translates, id);
    const forbidden = unserved ?? (isPermitted(caller.models, names, id) ? null : 'not_permitted_for_key');
    const skipped = forbidden ?? (isUnpriced(id) ? 'price_unknown' : null);
    if (skipped === null) open.push(id);
    else left.push({ model: id, skipped });
    isServed ||= unserved === null;
    isDeniedByKey ||= unserved === null && forbidden !== null;
  }
  if (isServed || !(project.catalogFill ?? flags.catalogFill)) return { open, skipped: left, isDeniedByKey, isFilled: false };

  // A model that stands in for another does not go by the other's name: only tier names open it to a key.
  const openers = resolution.kind === 'tier' ? names : [];
  for (const id of findFill({ catalog, route, resolution, isAuto })) {
    if (findSkipReason(request, route, flags.translates, id) !== null) continue;
    if (isUnpriced(id)) continue;
    if (isPermitted(caller.models, openers, id)) open.push(id);
    else if (left.length < maxFill) left.push({ model: id, skipped: 'not_permitted_for_key', filled: true });
    isDeniedByKey ||= open.length === 0;
    if (open.length === maxFill) break;
  }
  return { open, skipped: left, isDeniedByKey, isFilled: true };
}
