/** Selects the models that a call may use for the name it requests, with a reason for each model that we skip. */
import type { Caller, PlanEntry, TextRoute } from '../core/call.ts';
import { splitModelId } from './catalog.ts';
import { findFill } from './fill.ts';
import type { RoutingView } from './rules.ts';
import { findMissingTags, findSkipReason, findTier, isPermitted, resolveModel } from './rules.ts';

export interface SelectRequest extends RoutingView {
  readonly caller: Caller;
  readonly route: TextRoute;
  /** Used for projects without a setting of their own. */
  readonly catalogFill: boolean;
  /** The tiers whose canaries the call tries. Absent if it can't try any. */
  readonly canaries?: readonly string[];
  /** True if a cost ceiling applies, so that models of unknown cost are skipped. */
  readonly requiresPrice?: boolean;
}

export interface Selection {
  readonly open: readonly string[];
  /** True if the models are substitutes from catalog fill. */
  readonly isFilled: boolean;
  readonly skipped: readonly PlanEntry[];
  /** True if a provider of the project serves a model that the key doesn't permit. */
  readonly isDeniedByKey: boolean;
  /** True if the name is neither a tier nor a model. */
  readonly isUnknown: boolean;
  /** Set if the tier has a canary. If `isTried` is true, it's the first of the models. */
  readonly canary?: { readonly tier: string; readonly isTried: boolean };
}

/** A catalog may have thousands of substitutes, but after this many failures the call should fail. */
const maxFill = 20;

/** Selects the models for the name `requested`. For a call to `auto`, that's the tier that we chose. */
export function selectModels(request: SelectRequest, requested: string, isAuto: boolean): Selection {
  const { caller, route, catalogFill, catalog, project } = request;
  const resolved = resolveModel(request, requested);
  // `auto` can be filled even if its tier isn't configured.
  const resolution = isAuto && resolved.kind === 'unknown' ? ({ kind: 'tier', ids: [] } as const) : resolved;
  const names = isAuto ? ['auto', requested] : [requested];
  const isUnknown = resolution.kind === 'unknown';

  const open: string[] = [];
  const skipped: PlanEntry[] = [];
  let isDeniedByKey = false;
  let isServed = false;
  for (const id of new Set(resolution.ids)) {
    const unserved = findSkipReason(request, route, id);
    const forbidden = unserved ?? (isPermitted(caller.models, names, id) ? null : 'not_permitted_for_key');
    const reason = forbidden ?? (isUnpriced(request, id) ? 'price_unknown' : null);
    if (reason === null) open.push(id);
    else skipped.push(toSkipped(request, id, reason));
    isServed ||= unserved === null;
    isDeniedByKey ||= unserved === null && forbidden !== null;
  }
  if (isServed || !(project.catalogFill ?? catalogFill))
    return withCanary(request, requested, names, { open, skipped, isDeniedByKey, isUnknown, isFilled: false });

  // A substitute doesn't have the name of the requested model, so only the names of tiers can permit it to a key.
  const permitting = resolution.kind === 'tier' ? names : [];
  const untagged: PlanEntry[] = [];
  for (const id of findFill({ catalog, route, resolution, isAuto })) {
    const reason = findSkipReason(request, route, id);
    if (reason === 'tags_missing' && untagged.length < maxFill) untagged.push({ ...toSkipped(request, id, reason), filled: true });
    if (reason !== null || isUnpriced(request, id)) continue;
    if (isPermitted(caller.models, permitting, id)) open.push(id);
    else if (skipped.length < maxFill) skipped.push({ model: id, skipped: 'not_permitted_for_key', filled: true });
    isDeniedByKey ||= open.length === 0;
    if (open.length === maxFill) break;
  }
  // If there are substitutes, it doesn't matter which others lack a tag.
  return { open, skipped: open.length > 0 ? skipped : [...skipped, ...untagged], isDeniedByKey, isUnknown, isFilled: true };
}

/**
 * Puts the canary of a tier first if the call tries it. A key that permits the tier also permits its canary. If the
 * project or the application has its own tier of that name, there is no canary.
 */
function withCanary(request: SelectRequest, tier: string, names: readonly string[], selection: Selection): Selection {
  const { catalog, caller, route, canaries } = request;
  const id = catalog.canaries.get(tier)?.model;
  const { open, skipped } = selection;
  if (id === undefined || !canaries || open.length === 0 || findTier(request, tier) !== catalog.tiers.get(tier)) return selection;
  if (!canaries.includes(tier)) return { ...selection, canary: { tier, isTried: false } };
  const forbidden = isPermitted(caller.models, names, id) ? null : 'not_permitted_for_key';
  const reason = findSkipReason(request, route, id) ?? forbidden ?? (isUnpriced(request, id) ? 'price_unknown' : null);
  if (reason === null) return { ...selection, open: [...new Set([id, ...open])], canary: { tier, isTried: true } };
  return skipped.some(({ model }) => model === id) ? selection : { ...selection, skipped: [...skipped, toSkipped(request, id, reason)] };
}

function isUnpriced({ requiresPrice, catalog }: SelectRequest, id: string): boolean {
  return requiresPrice === true && !catalog.models.get(id)?.price;
}

function toSkipped(request: SelectRequest, id: string, reason: string): PlanEntry {
  const entry = { model: id, skipped: reason };
  return reason === 'tags_missing' ? { ...entry, lacks: findMissingTags(request, splitModelId(id)?.provider ?? '') } : entry;
}
